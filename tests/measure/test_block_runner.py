"""How many calls a block has, on variants whose cost is planted."""

import random
from types import SimpleNamespace

import pytest

from kernelwright.measure._block_runner import BlockRunner, _calls_us
from kernelwright.measure._content import Content
from kernelwright.records import Split
from kernelwright.sandbox import Reply
from kernelwright.tasks import Problem, load_task

TASK = """
import torch

import kernelwright as kw


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 64, "dim": 64}])
def double(x):
    return x * 2
"""


class Planted(BlockRunner):
    """Variants take a fixed time for a block and some for each call."""

    def _visit(self, variant, sets, calls, *, fetch, limit_s=0.0):
        self.visits.append((len(sets), calls))
        return SimpleNamespace(time_us=variant.block_us + calls * variant.call_us), None


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = tmp_path_factory.mktemp("runner") / "double.py"
    path.write_text(TASK)
    return Problem(load_task(str(path)))


def planted(block_us, call_us, name="eager", *, on_gpu=False):
    return SimpleNamespace(
        name=name, block_us=block_us, call_us=call_us, known_us={}, warmed_us=0.0, most_calls=1,
        worker=SimpleNamespace(on_gpu=on_gpu),
    )  # fmt: skip


def calls_of(problem, *call_us, block_us=400.0, on_gpu=False):
    workload = problem.task.split(Split.SEARCH)[0]
    runner = Planted(
        problem, workload, Content(problem, workload), None, None, random.Random(0), None, cold=False
    )
    runner.visits = []
    runner.variants = [planted(block_us, us, on_gpu=on_gpu) for us in call_us]
    runner.choose_calls()
    return runner._calls, runner.visits


def test_what_a_block_costs_beside_its_calls_does_not_count_as_their_time(problem):
    calls, visits = calls_of(problem, 25.0, 40.0)
    assert calls == 121, "3000 us of the fastest variant, whatever waking it costs"
    assert visits[-2:] == [(calls, calls)] * 2, "each variant's memory has grown before the first block"
    assert calls_of(problem, 25.0, 40.0, block_us=2000.0)[0] == calls


def test_a_call_that_is_long_enough_by_itself_is_not_tried_many_times(problem):
    calls, visits = calls_of(problem, 5000.0)
    assert (calls, visits) == (1, [(1, 1)] * 2)


def test_on_a_gpu_a_block_is_longer(problem):
    assert calls_of(problem, 500.0)[0] == 7
    assert calls_of(problem, 500.0, on_gpu=True)[0] == 25


def test_calls_too_short_to_tell_from_the_block_are_bounded(problem):
    assert calls_of(problem, 0.0)[0] == 256


def test_one_call_is_made_where_there_is_no_room_for_its_arguments(problem, monkeypatch):
    monkeypatch.setattr("kernelwright.measure._block_runner._MOST_ARGUMENT_BYTES", 1000)
    calls, visits = calls_of(problem, 25.0)
    assert (calls, visits) == (1, [(1, 1)] * 2)


def test_a_variant_a_hundred_times_slower_leaves_time_for_rounds(problem):
    assert calls_of(problem, 500.0, 5000.0)[0] == 7
    assert calls_of(problem, 500.0, 1e5, 1e5, 1e5)[0] == 3, "a second in all variants"
    assert calls_of(problem, 500.0, 2e6)[0] == 1


@pytest.mark.parametrize(("on_gpu", "least_us"), [(True, 300.0), (False, 0.0)])
def test_what_a_request_takes_is_asked_of_a_baseline_and_on_a_gpu_alone(problem, on_gpu, least_us):
    workload = problem.task.split(Split.SEARCH)[0]
    runner = Planted(
        problem, workload, Content(problem, workload), None, SimpleNamespace(fill=None), random.Random(0), None,
        cold=False,
    )  # fmt: skip
    empty_us = iter([350.0, 300.0, 900.0])
    baseline = SimpleNamespace(
        on_gpu=on_gpu, call=lambda sets, _, fill, quiet: SimpleNamespace(time_us=next(empty_us))
    )
    runner.variants = [
        SimpleNamespace(name="candidate", worker=SimpleNamespace(on_gpu=on_gpu)),
        SimpleNamespace(name="eager", worker=baseline),
    ]
    assert runner._handshake_us() == least_us


@pytest.mark.parametrize(
    ("time_us", "device_us", "left_us"), [(900.0, 100.0, 600.0), (900.0, 800.0, 800.0), (200.0, 0.0, 1.0)]
)
def test_what_a_request_takes_is_never_taken_off_what_the_gpu_worked(time_us, device_us, left_us):
    assert _calls_us(Reply(time_us, 0.0, 1, 0, device_us), handshake_us=300.0) == left_us
