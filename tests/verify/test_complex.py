"""Complex results: both parts are compared, and values that are conjugated or negated only when read."""

import pytest

from kernelwright.tasks import Problem, load_task
from kernelwright.verify import verify

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return (torch.fft.fft(x) * 2).conj(), torch.fft.fft(x).conj().imag

def get_inputs():
    return [torch.randn(6, 16)]

def get_init_inputs():
    return []
"""
SPECTRUM = "def run(x):\n    z = torch.fft.fft(x)\n    return {first}, -z.imag\n"


@pytest.fixture(scope="module")
def spectrum(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "spectrum.py"
    path.write_text(TASK)
    return Problem(load_task(str(path)))


@pytest.mark.parametrize(
    ("first", "failure"),
    [
        ("(z * 2).conj()", ""),
        ("(z * 2).conj().resolve_conj()", ""),
        ("z * 2", "correct"),
        ("torch.complex(z.real * 2, z.imag * -2.01)", "correct"),
    ],
    ids=["lazy", "stored", "not conjugated", "imaginary part off"],
)
def test_conjugated_results(first, failure, spectrum, pool, make):
    found = verify(spectrum, *make(SPECTRUM.format(first=first)), pool=pool, depth="screen")
    assert found.failure == failure, found.findings
    assert found.status == ("rejected" if failure else "accepted")
