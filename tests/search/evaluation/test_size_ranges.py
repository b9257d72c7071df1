"""Ranges of sizes: planted kernels, and real ones in workers."""

from contextlib import nullcontext

import pytest

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.measure import Bench
from kernelwright.records import Candidate, SizeOutcome, SourceFile
from kernelwright.sandbox import Pool
from kernelwright.search.evaluation._other_sizes import Elsewhere
from kernelwright.search.evaluation._size_ranges import Opening, WrongAtAnotherSizeError
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.workloads.symbols import Symbols

TASK = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 64, "dim": 32}], fixed=FIXED)
def slow(x):
    y = torch.zeros_like(x)
    for _ in range(100):
        y = y + x
    return y
"""


def problem_of(folder, fixed=()):
    (folder / "slow.py").write_text(TASK.replace("FIXED", repr(list(fixed))))
    return Problem(load_task(str(folder / "slow.py")))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    problem = problem_of(tmp_path_factory.mktemp("sizes"))
    return Symbols(problem, problem.task.workloads[0])


def opening(symbols, ratio, look=lambda rows, dim: SizeOutcome.SERVED):
    """An opening of a kernel with this ratio, if any, and outcome by sizes; what is timed is noted."""
    timed = []

    def time(workloads):
        timed.extend(tuple(w.axes.values()) for w in workloads)
        return {w.name: r for w in workloads if (r := ratio(*w.axes.values())) is not None}

    made = Opening(symbols, lambda w: look(*w.axes.values()), time)
    return made, timed


def boxes(found):
    return [[str(r) for r in box] for box in found.boxes]


def test_a_kernel_that_is_fast_everywhere_serves_from_one_to_twice_the_size(both):
    made, timed = opening(both, lambda rows, dim: 1.5)
    found = made.run()
    assert boxes(found) == [["rows from 1 to 128", "dim from 1 to 64"]]
    assert {(1, 1), (1, 64), (128, 1), (128, 64)} <= set(timed), "corners are timed too"
    assert {(63, 32), (65, 32), (64, 31), (64, 33)} <= set(timed), "and neighbours"
    assert {p.outcome for p in found.probes} == {SizeOutcome.SERVED}


def test_a_kernel_that_is_slow_at_the_neighbours_opens_nothing(both):
    made, _ = opening(both, lambda rows, dim: 3.0 if (rows, dim) == (64, 32) else 0.8)
    found = made.run()
    assert found.boxes == ()
    assert {p.outcome for p in found.probes if p.speedup} == {SizeOutcome.SLOWER}


def test_a_range_ends_before_the_first_size_that_is_slower(both):
    made, _ = opening(both, lambda rows, dim: 0.9 if rows < 32 or dim != 32 else 1.4)
    assert boxes(made.run()) == [["rows from 32 to 128", "dim 32"]]


def test_what_was_not_timed_stays_shut(both):
    made, _ = opening(both, lambda rows, dim: None if dim != 32 else 1.2)
    found = made.run()
    assert boxes(found) == [["rows from 1 to 128", "dim 32"]]
    assert {p.outcome for p in found.probes if "dim" in p.sizes} == {SizeOutcome.OPEN}


def test_a_kernel_of_multiples_of_eight_gets_a_divisibility_guard(both):
    served = SizeOutcome.SERVED
    made, _ = opening(both, lambda *_: 1.5, lambda rows, dim: SizeOutcome.DECLINED if dim % 8 else served)
    assert boxes(made.run()) == [["rows from 1 to 128", "dim from 8 to 64 in multiples of 8"]]


def test_a_kernel_of_one_size_says_so(both):
    declined = SizeOutcome.DECLINED
    made, _ = opening(both, lambda *_: 1.5, lambda rows, dim: declined if dim != 32 else SizeOutcome.SERVED)
    found = made.run()
    assert boxes(found) == [["rows from 1 to 128", "dim 32"]]
    assert "dim stays 32: the kernel serves no neighbour of it" in found.notes


def test_ranges_hold_one_at_a_time_where_a_corner_is_slower(both):
    made, _ = opening(both, lambda rows, dim: 0.7 if (rows, dim) == (128, 64) else 1.4)
    found = made.run()
    assert boxes(found) == [["rows from 1 to 128", "dim 32"], ["rows 64", "dim from 1 to 64"]]
    assert "the ranges hold one at a time: not all corners are served" in found.notes


def test_who_is_wrong_at_another_size_opens_nothing(both):
    wrong = SizeOutcome.WRONG
    made, _ = opening(both, lambda *_: 1.5, lambda rows, dim: wrong if rows == 128 else SizeOutcome.SERVED)
    with pytest.raises(WrongAtAnotherSizeError):
        made.run()
    assert made.found().boxes == ()
    assert made.found().probes[-1].sizes == {"rows": 128}


FAST = "(x.double() * 100).float()"
KERNELS = {
    "fast": f"    return {FAST}\n",
    "slow beside": f"    for _ in range(1 if len(x) % 2 == 0 else 300): y = {FAST}\n    return y\n",
    "of eight": "    if len(x) % 8: raise NotImplementedError('Unsupported: rows must be a multiple of 8')\n"
    f"    return {FAST}\n",
    "wrong": f"    return {FAST} if len(x) <= 64 else x * 99\n",
}
EXPECTED = {
    "fast": [["rows from 1 to 128"]],
    "slow beside": [],
    "of eight": [["rows from 8 to 128 in multiples of 8"]],
    "wrong": [],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    problem, device = problem_of(folder, ["dim"]), detect("cpu")
    settings, torch = Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder)}), get_language("torch")
    with Pool(settings, device="cpu") as pool, Bench(problem, pool, device, baselines=("eager",)) as bench:
        judge = Elsewhere(problem, pool, bench, nullcontext)

        def open_(name):
            source = SourceFile(path="c.py", text=f"import torch\ndef run(x):\n{KERNELS[name]}")
            candidate = Candidate(sources=(source,), language="torch", entry="c.py:run")
            return judge.open(candidate, torch.build(candidate), problem.task.workloads[:1], 120.0)

        yield open_


@pytest.mark.alone
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.long if n in {"slow beside", "of eight"} else ()) for n in KERNELS],
)
def test_ranges_of_real_kernels(found, name):
    (served,), failures = found(name)
    for _ in range(2):  # a processor that is taken away may close a range, and opens none
        if not any(p.outcome is SizeOutcome.SLOWER for p in served.probes) or name != "fast":
            break
        (served,), failures = found(name)
    assert boxes(served) == EXPECTED[name], served.probes
    assert [f.check for f in failures] == (["correct"] if name == "wrong" else [])
    if name == "slow beside":
        assert {p.outcome for p in served.probes if p.sizes["rows"] in (63, 65)} == {SizeOutcome.SLOWER}
    if name == "fast":
        blocks = [b for b in served.timing.blocks if b.workload == "rows=65,dim=32"]
        assert len(blocks) >= 3, "the raw blocks are kept"
        assert {"candidate", "eager"} <= blocks[0].times_us.keys()
