"""What languages reach: only what the records show, with the machine that showed it."""

import json
from pathlib import Path

import pytest

from kernelwright.api import languages
from kernelwright.api.languages import ABSENT, Seen, here, latest, read_evidence, seen_in, write_evidence
from kernelwright.cli import main
from kernelwright.devices import Device
from kernelwright.errors import InputError
from kernelwright.languages import Availability
from kernelwright.records import (
    Block,
    Budget,
    Build,
    BuildStatus,
    Candidate,
    Decision,
    DecisionStatus,
    Evaluation,
    Finding,
    Reference,
    SourceFile,
    Task,
    Timing,
    Verdict,
)
from kernelwright.store import EvaluationKey, Store

TASK = Task(
    name="t", form="own", reference=Reference(files=(), entry="t.py:t", style="function"), workloads=()
)


def kept(store: Store, language: str, target: str = "cpu", *, timed: bool = False, **more) -> None:
    candidate = Candidate(
        sources=(SourceFile(path="k", text=language),), language=language, entry="k:run", style="function"
    )
    run = store.create_run(TASK, device=f"{target}-1", budget=Budget(), seed=0)
    store.append_event(run.id, {"event": "run", "device": f"the {target}", "target": target})
    block = Block(workload="w", order=("candidate",), calls=1, times_us={"candidate": 1.0})
    checks = more.pop("checks", ())
    evaluation = Evaluation(
        candidate=candidate,
        build=Build(status=more.pop("status", BuildStatus.OK), evidence=more.pop("evidence", {})),
        verdict=Verdict(
            candidate=candidate.key, findings=tuple(Finding(check=c, status="pass") for c in checks)
        ),
        timing=Timing(variants=(), blocks=(block,), cache="warm", device="d") if timed else None,
        decision=Decision(candidate=candidate.key, status=DecisionStatus.UNKNOWN, reason=""),
    )
    key = EvaluationKey(candidate.key, TASK.key, run.device, "t", run.id)
    store.save_evaluation(run.id, key, evaluation, elapsed_s=0.0)


def states(store: Store) -> set[tuple[str, str, str]]:
    return {(row.language, row.target, row.state) for row in seen_in(store)}


def test_each_state_needs_its_own_record(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        kept(store, "cpp", timed=True)
        kept(store, "cuda", checks=("runs",), evidence={"sm_90.registers": 8, "sm_120.registers": 9})
        kept(store, "triton", checks=("sanitised", "runs"))
        kept(store, "pallas", checks=("runs",))
        kept(store, "uninstalled", checks=("runs",))
        assert states(store) == {
            ("pallas", "tpu", "executed"),
            ("cpp", "cpu", "timed"),
            ("cuda", "sm_90", "compiled"),
            ("cuda", "sm_120", "compiled"),
            ("cuda", "sm_90", "executed"),
            ("triton", "sm_90", "executed"),
            ("triton", "sm_90", "sanitised"),
        }


def test_what_was_not_built_or_only_ran_shows_nothing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        kept(store, "cpp", status=BuildStatus.FAILED, timed=True, evidence={"sm_90.registers": 1})
        kept(store, "torch", checks=("runs",))
        assert not states(store)


def test_a_gpu_that_timed_is_the_target_and_cuda_was_not_executed_by_us(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        kept(store, "cuda", "sm_90", checks=("runs",), timed=True)
        kept(store, "gluon", "sm_90", checks=("runs",), timed=True)
        assert states(store) == {("cuda", "sm_90", "timed"), ("gluon", "sm_90", "timed")}


@pytest.mark.needs("no GPU", "C++ compiler")
def test_a_language_that_only_the_executor_runs_is_executed_where_its_calls_answered(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        kept(store, "gluon", checks=("runs",))
        assert states(store) == {("gluon", "sm_90", "executed")}


def test_the_newest_machine_is_shown_and_evidence_of_others_is_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = Seen(
        language="triton", target="gfx942", state="timed", machine="MI300X", when="2025-01-01", run="r1"
    )
    write_evidence(tmp_path / "e.jsonl", [elsewhere])
    assert read_evidence(tmp_path / "e.jsonl") == [elsewhere]
    with Store(tmp_path / "s") as store:
        kept(store, "cpp", timed=True)
    words = ["languages", "--store", str(tmp_path / "s"), "--json", "--evidence", str(tmp_path / "e.jsonl")]
    assert main([*words, "--out", str(tmp_path / "all.jsonl")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()][:-1]
    seen = {(r["language"], r["target"]): r["seen"] for r in rows}
    assert [s["machine"] for s in seen["triton", "gfx942"]] == ["MI300X"]
    assert [s["machine"] for s in seen["cpp", "cpu"]] == ["the cpu"]
    assert seen["cuda", "sm_90"] == []
    assert len(read_evidence(tmp_path / "all.jsonl")) == 2
    newer = elsewhere.model_copy(update={"when": "2025-03-01", "machine": "MI325X"})
    assert [row.machine for row in latest([newer, elsewhere])] == ["MI325X"]


def test_a_file_that_is_no_evidence_is_said(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="is no file of"):
        read_evidence(tmp_path / "e.jsonl")


class Planted:
    targets = ("sm_90", "sm_100")

    def available(self) -> Availability:
        return Availability(True, "planted")

    def timeable(self, device: str) -> bool:
        return device == "cuda"


@pytest.mark.parametrize(
    ("gpu", "executes", "executed", "expected"),
    [
        ("9.0", False, (), ["timed", "compiled"]),
        ("", True, (), ["sanitised", "compiled"]),
        ("", False, (), ["compiled"] * 2),
        ("", False, ("sm_100",), ["compiled", "executed"]),
    ],
)
def test_here_says_no_more_than_devices_and_tools_allow(
    monkeypatch: pytest.MonkeyPatch, gpu: str, executes: bool, executed: tuple[str, ...], expected: list[str]
) -> None:
    device = Device(
        kind="cuda", name="g", cores=1, memory_bytes=1, torch_device="cuda:0", facts={"capability": gpu}
    )
    monkeypatch.setattr(Planted, "executed", executed, raising=False)
    monkeypatch.setattr(languages, "language_names", lambda: ("planted",))
    monkeypatch.setattr(languages, "get_language", lambda _: Planted())
    monkeypatch.setattr(languages, "executes", lambda _: executes)
    monkeypatch.setattr(languages, "devices", lambda: [device] if gpu else [])
    assert [state for name, _, state, _ in here() if name == "planted"] == expected


def test_what_a_source_may_ask_for_and_what_is_nowhere_is_listed_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Seen(language="cuda", target="sm_86", state="compiled", machine="m", when="2025-01-01", run="r")
    write_evidence(tmp_path / "e.jsonl", [other])
    words = ["languages", "--store", str(tmp_path / "s"), "--evidence", str(tmp_path / "e.jsonl")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {tuple(line.split("\t")[:2]): line.split("\t")[2:] for line in lines if "\t" in line}
    for language, targets in (
        ("cuda", ("sm_80", "sm_90", "sm_100", "sm_120")),
        ("triton", ("sm_80", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx950")),
    ):
        assert all((language, target) in rows for target in targets)
        assert sum(name == language and target == "sm_90" for name, target in rows) == 1
    assert rows["cuda", "sm_86"] == ["-", "compiled on m, 2025-01-01, run r"]
    for language, target, why in ABSENT:
        assert rows[language, target] == ["not here", "never"]
        assert f"{language} is not here: {why}" in lines


def test_the_page_shows_just_the_evidence_that_is_kept() -> None:
    docs = Path(__file__).parents[2] / "docs"
    rows = [
        f"| {r.language} | {r.target} | {r.state} | {r.machine} | {r.when[:10]} |"
        for r in read_evidence(docs / "languages" / "evidence.jsonl")
    ]
    page = (docs / "languages.md").read_text().partition("| date |\n|---|---|---|---|---|\n")[2]
    assert rows
    assert page.partition("\n\n")[0].splitlines() == rows
