"""Counting: who is asked, what a failure costs, and one real worker counted from outside."""

import os

import pytest

from kernelwright.devices import Device
from kernelwright.errors import ProfilerError
from kernelwright.languages import Availability, get_language
from kernelwright.profile import Counting
from kernelwright.profile.tools import Perf
from kernelwright.profile.tools.perf import Events
from kernelwright.records import Build, Candidate, Counters, SourceFile
from kernelwright.sandbox import FailureKind, WorkerFailure
from kernelwright.tasks import Problem, load_task

CPU = Device(kind="cpu", name="any", cores=1, memory_bytes=1, torch_device="cpu")
GPU = CPU.model_copy(update={"kind": "cuda", "torch_device": "cuda:0"})
FAULTS_A_CALL = 256
SOURCE = f"""
import mmap

def plain(x):
    return x + x

def faulting(x):
    with mmap.mmap(-1, {FAULTS_A_CALL} * mmap.PAGESIZE) as fresh:
        for page in range(0, len(fresh), mmap.PAGESIZE):
            fresh[page] = 1
    return x + x
"""
# Outputs are so small that the allocator keeps them: whether large ones are mapped anew, page by page, is its choice.
TASK = """
import kernelwright as kw

@kw.task(x="float32[n]", workloads=[{"n": 4096}])
def double(x):
    return x + x
"""


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    file = tmp_path_factory.mktemp("task") / "double.py"
    file.write_text(TASK)
    return Problem(load_task(str(file)))


def candidate(symbol):
    sources = (SourceFile(path="kernel.py", text=SOURCE),)
    return Candidate(sources=sources, language="torch", entry=f"kernel.py:{symbol}")


class Planted:
    """A profiler that does as told, trial by trial."""

    name = "planted"

    def __init__(self, *outcomes, here=True):
        self.outcomes, self.here, self.trials = list(outcomes), here, []

    def available(self, device):
        return Availability(self.here, device.name)

    def count(self, trial):
        self.trials.append(trial)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return Counters(tool=self.name, workload=trial.workload.name, calls=1, figures={"ipc": outcome})


def counted(problem, *profilers, times=1):
    notes = []
    with Counting(problem, CPU, profilers=profilers, note=notes.append) as counting:
        return [counting(candidate("plain"), Build(status="ok")) for _ in range(times)], notes


@pytest.mark.parametrize("error", [ProfilerError("ERR_NVGPUCTRPERM"), OSError(24, "Too many open files")])
def test_a_profiler_that_fails_is_noted_once_and_not_asked_again(problem, error):
    broken, well = Planted(error), Planted(1.0, 2.0)
    found, notes = counted(problem, broken, well, times=2)
    assert [[c.figures["ipc"] for c in one] for one in found] == [[1.0], [2.0]]
    assert len(broken.trials) == 1 and len(notes) == 1 and str(error) in notes[0]


def test_a_candidate_that_fails_costs_its_own_counters(problem):
    found, notes = counted(problem, Planted(WorkerFailure(FailureKind.CRASHED, "it ended"), 2.0), times=2)
    assert [len(one) for one in found] == [0, 1] and "it ended" in notes[0]


def test_only_what_counts_here_is_asked_and_only_on_a_workload_that_is_no_secret(problem):
    absent, here = Planted(here=False), Planted(1.0)
    counted(problem, absent, here)
    assert not absent.trials and here.trials[0].workload == problem.task.workloads[0]


def test_a_count_ends_with_what_is_left_of_the_run(problem):
    here = Planted(1.0)
    with Counting(problem, CPU, profilers=[here]) as counting:
        counting(candidate("plain"), Build(status="ok"), deadline_s=0.0)
    assert here.trials[0].left_s <= 0


# Containers may forbid the system call; what needs no profiler is tested everywhere.
needs_perf = pytest.mark.needs("perf events")


@needs_perf
def test_perf_counts_what_a_call_does_in_its_worker(problem):
    made = {symbol: candidate(symbol) for symbol in ("plain", "faulting")}
    with Counting(problem, CPU, profilers=[Perf()]) as counting:
        found = {s: counting(c, get_language("torch").build(c)) for s, c in made.items()}
    (plain,), (faulting,) = found["plain"], found["faulting"]
    assert faulting.figures["page_faults"] - plain.figures["page_faults"] == pytest.approx(
        FAULTS_A_CALL, rel=0.1
    )
    assert plain.figures["page_faults"] < 16, "memory that earlier calls' outputs left is used again"
    assert faulting.figures["task_us"] > 0 and faulting.calls >= 1
    if "instructions" in faulting.figures:
        assert faulting.figures["ipc"] > 0


@needs_perf
def test_events_count_only_while_they_are_enabled():
    with Events(os.getpid()) as events:
        bytearray(1 << 20)
        assert set(events.totals().values()) == {0.0}
        events.enable()
        sum(range(1000))
        assert events.totals()["task_us"] > 0


def test_perf_counts_no_gpu():
    assert not Perf().available(GPU).ok


def test_a_process_that_is_gone_is_refused_in_a_sentence():
    with pytest.raises(ProfilerError, match="perf_event_open"):
        Events(2**22 + 1)
