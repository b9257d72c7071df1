"""Inductor's code, cut out and joined again, must compute what the reference computes."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.languages import get_language
from kernelwright.propose._inductor import Generated, Harvested, HarvestError, harvest, rewrite
from kernelwright.propose._inductor import __main__ as harvesting
from kernelwright.propose._inductor._harvest import Order
from kernelwright.propose._inductor._rewrite import Part
from kernelwright.records import Build, BuildStatus, Candidate, Split
from kernelwright.tasks import Problem, load_task

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 24)
    def forward(self, x):
        return torch.softmax(self.linear(x), dim=-1), torch.cumsum(x, dim=1)

rows = 6
width = 40
def get_inputs(): return [torch.randn(rows, width)]
def get_init_inputs(): return [width]
"""

needs_compiler = pytest.mark.needs("C++ compiler")


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("task") / "linear_softmax.py"
    path.write_text(TASK)
    return Problem(load_task(str(path)))


@pytest.fixture(scope="module")
def built(problem: Problem) -> tuple[Candidate, Build]:
    harvested = harvest(problem.task, problem.task.split(Split.SEARCH), ("default", "max-autotune"))
    assert [(one.mode, one.failure) for one in harvested] == [("default", ""), ("max-autotune", "")]
    candidate = rewrite(harvested[0].codes, problem.task.name, "default")
    return candidate, get_language("cpp").build(candidate)


@pytest.mark.long
@needs_compiler
def test_it_stands_alone_and_is_right(problem: Problem, built: tuple[Candidate, Build]) -> None:
    candidate, build = built
    assert build.status is BuildStatus.OK, build.diagnostics
    assert build.artefact is not None
    assert any(s.path.endswith(".cpp") for s in candidate.sources)
    workload = problem.task.split(Split.SEARCH)[0]
    run = get_language("cpp").load(candidate, Path(build.artefact), workload.outputs)
    inputs, state = problem.inputs(workload, 5), problem.state(workload, 5)
    for got, want in zip(
        run(*inputs, *state.values()), problem.run_oracle(workload, inputs, state).outputs, strict=True
    ):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.long
@needs_compiler
def test_other_sizes_are_declined(problem: Problem, built: tuple[Candidate, Build]) -> None:
    candidate, build = built
    assert build.artefact is not None
    workload = problem.task.split(Split.SEARCH)[0]
    run = get_language("cpp").load(candidate, Path(build.artefact), workload.outputs)
    state = problem.state(workload, 5)
    with pytest.raises(NotImplementedError, match=r"^Unsupported:"):
        run(torch.randn(7, 40), *state.values())


def test_the_names_that_the_code_gives_to_torchs_things_come_along() -> None:
    code = (
        "from math import inf, nan\n"
        "checked = torch._C._dynamo.guards.assert_size_stride\n"
        "unused = torch.ops.aten\n"
        "def call(args):\n"
        "    x, = args\n"
        "    checked(x, (3, ), (1, ), 'input')\n"
        "    return (torch.full((3, ), inf), )\n"
        "def get_args():\n"
        "    return [rand_strided((3, ), (1, ), device='cpu', dtype=torch.float32)]\n"
    )
    candidate = rewrite([Generated(code=code, flags=(), inputs=("x",))], "t", "default")
    namespace: dict[str, Any] = {}
    exec(candidate.sources[0].text, namespace)
    assert namespace["run"](torch.ones(3)).tolist() == [float("inf")] * 3
    assert "unused" not in namespace


def test_code_of_an_unknown_form_is_refused() -> None:
    strange = Generated(code="def other(): pass", flags=(), inputs=())
    with pytest.raises(HarvestError, match="function `call`"):
        rewrite([strange], "t", "default")


def test_a_slow_compiler_is_ended(problem: Problem) -> None:
    found = harvest(problem.task, problem.task.split(Split.SEARCH)[:1], ("default",), deadline_s=0.2)
    assert [(one.mode, one.codes, one.failure) for one in found] == [("default", (), "no code after 0.2 s")]


def test_modes_share_a_process_and_fail_alone(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, workloads = Generated(code="", flags=(), inputs=()), problem.task.split(Split.SEARCH)

    def compiled(_: object, __: object, mode: str) -> Generated:
        if mode == "default":
            return code
        raise ValueError("no such mode")

    monkeypatch.setattr(harvesting, "_compile", compiled)
    order = Order(task=problem.task, workloads=workloads[:1], modes=("default", "max-autotune"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(order.to_json()))
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # taken from the compilers by the process
    assert harvesting.main() == 0
    first, second = (Harvested.from_json(line) for line in capsys.readouterr().out.splitlines())
    assert (first.mode, first.codes, first.failure) == ("default", (code,), "")
    assert (second.mode, second.codes) == ("max-autotune", ()) and "no such mode" in second.failure


def test_what_a_mode_finished_before_the_process_died_is_kept(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = Harvested(mode="default", codes=(Generated(code="c", flags=(), inputs=()),)).to_json()
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{line}'\necho it broke >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    first, second = harvest(problem.task, (), ("default", "max-autotune"))
    assert first.codes[0].code == "c" and not first.failure
    assert (second.mode, second.codes, second.failure) == ("max-autotune", (), "it broke")


def _part(*texts: str) -> Part:
    kernels = {f"cpp_{n}": (["const float*"], text) for n, text in enumerate(texts)}
    return Part(kernels, "", {}, [])


def test_kernels_of_one_function_share_a_file_so_that_torchs_header_is_compiled_once() -> None:
    plain = '#include <torch/prefix.h>\nextern "C" void kernel(const float* x)\n{\n    {\n    }\n}\n'
    more = plain.replace("extern", "static int counted = 0;\nextern", 1)
    files = {s.path: s.text for s in _part(plain, more, plain).sources("w0")}
    assert list(files) == ["w0_cpp_1.cpp", "w0_kernels.cpp"], (
        "what defines more has names that may be another's too"
    )
    shared = files["w0_kernels.cpp"]
    assert shared.count("#include <torch/prefix.h>") == shared.count("start_of(const DLTensor* t) {") == 1
    assert all(f"KW_KERNEL(w0_cpp_{n})" in shared and f"void inductor_w0_cpp_{n}(" in shared for n in (0, 2))
    assert shared.index("#include <torch") < shared.index("extern")
    assert "KW_KERNEL(w0_cpp_1)" in files["w0_cpp_1.cpp"] and files["w0_cpp_1.cpp"].startswith("#include")
