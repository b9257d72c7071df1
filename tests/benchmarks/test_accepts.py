"""What counts as a false accept and as a duplicate, and that all are asked the same; who accepts what is not tested."""

import json
from types import SimpleNamespace

import pytest
import torch
from benchmarks.peers import kernel_evaluator
from benchmarks.peers.kernel_evaluator import essence
from benchmarks.peers.programs import PROGRAMS, REPLIES
from benchmarks.peers.running import BLOCK

from benchmarks import accepts
from kernelwright.propose.llm._replies import read_code
from kernelwright.records import Interval, VerdictStatus

NAMES = {p.name: essence(p.text) for p in PROGRAMS}
RULED = {
    essence(p.text): SimpleNamespace(
        verdict=VerdictStatus.ACCEPTED if p.right else VerdictStatus.REJECTED, speedup=Interval(median=1.5)
    )
    for p in PROGRAMS
}


def row(evaluated: list[str], accepted: dict[str, float]) -> dict[str, object]:
    by_essence = {NAMES[name]: speedup for name, speedup in accepted.items()}
    found = accepts.Evaluated(tuple(NAMES[name] for name in evaluated), by_essence)
    return accepts.row_of("planted", found, RULED)


def test_what_the_judge_rejects_is_a_false_accept_and_a_best_that_is_one_has_no_speedup() -> None:
    told = row(["fused", "zeros", "fused"], {"fused": 2.0, "zeros": 9.0})
    assert (told["evaluated"], told["duplicates"], told["accepted"]) == (3, 1, 2)
    assert told["false_accepts"] == ["zeros"]
    assert (told["best"], told["believed"], told["true_speedup"]) == ("zeros", 9.0, None)


def test_a_right_best_has_the_judges_speedup_and_nothing_accepted_has_none() -> None:
    told = row(["fused"], {"fused": 2.0})
    assert (told["best"], told["believed"], told["true_speedup"]) == ("fused", 2.0, 1.5)
    nothing = row(["zeros"], {})
    assert (nothing["accepted"], nothing["false_accepts"], nothing["best"]) == (0, [], None)


def test_every_answer_holds_its_program_and_some_come_twice() -> None:
    for n, number in enumerate(REPLIES):
        (block,) = read_code(accepts.script(n)).blocks
        assert essence(block.text) == essence(PROGRAMS[number].text)
    assert len(set(REPLIES)) == len(PROGRAMS) < len(REPLIES)


@pytest.fixture
def as_many_threads():
    """Take back what the evaluator sets: the others run it in a process of its own."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("as_many_threads")
@pytest.mark.parametrize(("name", "right"), [("fused", True), ("zeros", False), ("scaled by 0.99", False)])
def test_the_users_evaluator_refuses_what_is_plainly_wrong_and_logs_what_it_ran(
    tmp_path, monkeypatch, name, right
) -> None:
    monkeypatch.setenv("EVALUATED", str(tmp_path / "log"))
    program = tmp_path / "program.py"
    program.write_text(BLOCK.format(program=next(p.text for p in PROGRAMS if p.name == name)))
    assert (kernel_evaluator.evaluate(str(program))["combined_score"] > 0) == right
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert json.loads(line)["program"] == NAMES[name]
