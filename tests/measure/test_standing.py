"""What screenings leave to later ones, on planted blocks."""

import pytest

from kernelwright.measure._standing import Standing
from kernelwright.records import Block


def blocks(rounds=5, workload="w", **times_us):
    return [
        Block(
            workload=workload, order=tuple(times_us), calls=1, times_us=times_us, fetch_us={}, phase="screen"
        )
        for _ in range(rounds)
    ]


@pytest.mark.parametrize(
    ("times_us", "contenders"),
    [
        ({"eager": 200.0, "compile": 100.0}, {"compile"}),
        ({"eager": 110.0, "compile": 100.0}, {"eager", "compile"}),
        ({"eager": 200.0, "compile": 190.0, "openvino": 100.0}, {"eager", "openvino"}),
    ],
)
def test_what_is_far_from_the_fastest_is_not_timed_again_and_results_stay_comparable(times_us, contenders):
    standing = Standing()
    standing.learn(blocks(candidate=50.0, **times_us), tuple(times_us))
    assert standing.contenders == contenders


def test_the_fastest_on_any_workload_stays():
    standing = Standing()
    first = blocks(candidate=50.0, eager=100.0, compile=200.0)
    standing.learn(
        [*first, *blocks(workload="v", candidate=50.0, eager=200.0, compile=100.0)], ("eager", "compile")
    )
    assert standing.contenders == {"eager", "compile"}


def test_few_rounds_leave_every_baseline_in():
    standing = Standing()
    standing.learn(blocks(2, candidate=50.0, eager=100.0, compile=500.0), ("eager", "compile"))
    assert standing.contenders is None


def test_a_screening_ends_early_only_where_every_workload_is_far():
    standing = Standing()
    best = [*blocks(candidate=10.0, eager=100.0), *blocks(workload="v", candidate=10.0, eager=100.0)]
    assert not standing.is_far(best, 5), "nothing is known yet"
    standing.learn(best, ("eager",))
    slow = [*blocks(1, candidate=15.0, eager=100.0), *blocks(1, workload="v", candidate=15.0, eager=100.0)]
    assert not standing.is_far(slow, 1) and standing.is_far(slow, 2)
    assert standing.is_far(blocks(1, candidate=25.0, eager=100.0), 1)
    assert not standing.is_far([*slow, *blocks(1, workload="v", candidate=10.0, eager=100.0)], 2)


def test_who_was_timed_against_one_baseline_tells_who_is_hopeless_and_leaves_none_out():
    standing = Standing()
    standing.learn(blocks(candidate=30_000.0, eager=1e5), ())
    assert standing.hopeless_us == {"w": 150_000.0} and standing.contenders is None


def test_hopeless_is_far_slower_than_the_best_and_long():
    standing = Standing()
    assert standing.hopeless_us == {}
    standing.learn(blocks(candidate=30_000.0, eager=1e5), ("eager",))
    standing.learn(blocks(candidate=10_000.0, eager=1e5), ("eager",))
    standing.learn(blocks(workload="v", candidate=10.0, eager=100.0), ("eager",))
    assert standing.hopeless_us == {"w": 50_000.0, "v": 20_000.0}
