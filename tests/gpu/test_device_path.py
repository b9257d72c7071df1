"""The whole path on a real device: peaks, bound, a Triton kernel judged and timed."""

from pathlib import Path

import pytest
import torch

import kernelwright as kw
from kernelwright.devices import detect, peaks_of

pytestmark = pytest.mark.needs("GPU")
TASKS = Path(__file__).resolve().parents[2] / "benchmarks" / "tasks"


def test_the_device_is_detected_with_its_facts() -> None:
    device = detect("cuda:0")
    assert device.kind == "cuda"
    assert device.memory_bytes > 1 << 30
    assert detect("cuda:0").fingerprint == device.fingerprint


def test_peaks_are_of_this_planet() -> None:
    peaks = peaks_of(detect("cuda:0"), refresh=True)
    memory = peaks.best("dram")
    assert memory is not None
    assert 1e11 < memory.value < 3e13


def test_a_triton_kernel_is_judged_and_timed(tmp_path: Path) -> None:
    result = kw.optimize(
        f"{TASKS / 'norm.py'}:rms_norm_residual",
        device="cuda:0",
        languages=("triton",),
        proposers=("library",),
        budget=kw.Budget(evaluations=3, minutes=2),
        store=tmp_path,
    )
    assert result.evaluations >= 1
    assert result.time_us is not None
    assert result.time_us > 0
    assert result.decision in {"improved", "equal", "slower", "inconclusive"}


def test_a_wrong_kernel_is_rejected_on_the_device(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import torch\ndef run(x):\n    return torch.softmax(x * 1.01, -1)\n")
    judgement = kw.judge(f"{TASKS / 'softmax.py'}:softmax", str(wrong), device="cuda:0", store=tmp_path)
    assert judgement.verdict == "rejected"
    assert torch.cuda.is_available()
