"""What a loader sets in its own language is no candidate's doing; in another language it is."""

import sys
from pathlib import Path

import pytest
import torch

from kernelwright.sandbox import _worker_state
from kernelwright.sandbox._self_report import Witness


@pytest.mark.parametrize(
    ("language", "reported"), [("torch", ["TRITON_INTERPRET"]), ("cpp", ["TRITON_INTERPRET"]), ("triton", [])]
)
def test_the_interpreters_switch_belongs_to_triton_alone(
    language: str, reported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    witness = Witness()
    witness.remember_settings()
    witness.expect(language)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert witness.report()["environment"] == reported


def test_another_variable_is_reported_in_every_language(monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness()
    witness.remember_settings()
    witness.expect("triton")
    monkeypatch.setenv("KERNEL_ANSWERS", "kept")
    assert witness.report()["environment"] == ["KERNEL_ANSWERS"]


def test_a_precision_set_by_its_newer_name_is_reported_and_does_not_break_the_report() -> None:
    witness = Witness()
    witness.remember_settings()
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        assert "fp32_precision of cuda.matmul" in witness.report()["flags"]
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"


def test_a_method_of_cuda_events_that_was_replaced_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness()
    witness.remember()
    monkeypatch.setattr(torch.cuda.Event, "elapsed_time", lambda *_: 0.0)
    assert witness.report()["patched"] == ["torch.cuda.streams.Event.elapsed_time"]


@pytest.mark.parametrize(("limit", "reported"), [(2000, []), (50_000, ["recursion_limit"])])
def test_the_recursion_that_torchs_compiler_allows_itself_is_no_candidates_doing(
    limit: int, reported: list[str]
) -> None:
    usual = sys.getrecursionlimit()
    witness = Witness()
    witness.remember_settings()
    sys.setrecursionlimit(limit)
    try:
        assert witness.report()["flags"] == reported
    finally:
        sys.setrecursionlimit(usual)


@pytest.mark.parametrize(
    ("path", "reported"),
    [(Path(torch.__file__).parent / "_inductor/bin/ptxas", []), ("/other/ptxas", ["TRITON_PTXAS_PATH"])],
)
def test_the_assembler_that_torch_brings_is_no_candidates_doing(
    path: Path, reported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    witness = Witness()
    witness.remember_settings()
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(path))
    assert witness.report()["environment"] == reported


def test_code_of_the_worker_that_was_replaced_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness()
    witness.remember()
    monkeypatch.setattr(_worker_state.WorkerState, "plan", lambda *_: [])
    monkeypatch.setattr(_worker_state, "places", lambda *_: None)
    place = "kernelwright.sandbox._worker_state"
    assert set(witness.report()["patched"]) == {f"{place}.WorkerState.plan", f"{place}.places"}
