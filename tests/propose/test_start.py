"""A kernel-to-kernel task: its kernel is the first candidate and a baseline."""

from pathlib import Path

from kernelwright.devices import detect
from kernelwright.propose import Request
from kernelwright.propose.start import StartProposer
from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def request(target: str, languages: tuple[str, ...]) -> Request:
    return Request(Problem(load_task(str(EXAMPLES / target))), detect("cpu"), (), languages)


def test_the_start_is_proposed_and_is_a_baseline() -> None:
    asked = request("kernel_to_kernel", ("cpp",))
    (start,) = StartProposer().propose(asked)
    assert start.entry == "layernorm.cpp:layernorm"
    workload = asked.problem.task.split(Split.SEARCH)[0]
    assert asked.problem.baseline("start", workload).key == start.key


def test_nothing_is_proposed_without_a_start_or_its_language() -> None:
    assert list(StartProposer().propose(request("swiglu.py", ("cpp",)))) == []
    assert list(StartProposer().propose(request("kernel_to_kernel", ("triton",)))) == []
