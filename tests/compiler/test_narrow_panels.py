"""Weights in panels of few columns, whose number the compiler of the kernel does not know."""

from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.propose import Request
from kernelwright.propose.schedule import ScheduleProposer
from kernelwright.tasks import Problem, load_task

NARROW = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attend = nn.MultiheadAttention(dim, 1)

    def forward(self, x):
        return self.attend(x, x, x)[0] + x

dim = 8

def get_inputs():
    return [torch.rand(6, 2, dim)]

def get_init_inputs():
    return [dim]
"""


def test_a_width_that_is_known_at_the_call_alone_is_no_constant_of_the_kernel(tmp_path):
    (tmp_path / "narrow.py").write_text(NARROW)
    problem = Problem(load_task(str(tmp_path / "narrow.py")))
    request = Request(problem=problem, device=detect("cpu"), bounds=(), languages=("cpp",))
    template = next(t for t in ScheduleProposer().propose(request) if "pack(" in t.name)
    candidate = template.render(template.default())
    assert any("kw::Packed<" in s.text for s in candidate.sources if s.path.endswith(".cpp"))
    quick = candidate.model_copy(update={"flags": (*candidate.flags, "-O0")})
    built = get_language("cpp").build(quick, deadline_s=600.0)
    assert built.status == "ok", built.diagnostics
