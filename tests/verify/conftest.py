"""One pool and small tasks for the tests that need real workers."""

import pytest

from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import verify

SOFTMAX = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return torch.softmax(x, dim=-1) * self.weight

rows = 24
dim = 48

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return [dim]
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Give verifications all the time that a busy machine needs, where a test does not say how long."""
    monkeypatch.setitem(verify.__kwdefaults__, "deadline_s", 600.0)


@pytest.fixture(scope="session")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernelwright")
    return Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder), "KERNELWRIGHT_STORE": str(folder)})


@pytest.fixture(scope="session")
def pool(settings):
    with Pool(settings, arena_bytes=16 << 20) as pool:
        yield pool


@pytest.fixture(scope="session")
def problem(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "scaled_softmax.py"
    path.write_text(SOFTMAX)
    return Problem(load_task(str(path)))


@pytest.fixture(scope="session")
def make(settings):
    def make(body: str):
        text = f"import torch\n{body}"
        candidate = Candidate(
            sources=(SourceFile(path="c.py", text=text),), language="torch", entry="c.py:run"
        )
        return candidate, get_language("torch").build(candidate)

    return make
