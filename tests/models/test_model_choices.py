"""The set to try, where the next minutes go, and which kernels to leave out: on planted values."""

import itertools
import random
from dataclasses import dataclass

import pytest

from kernelwright.models._budget import Stream, next_of
from kernelwright.models._choose import choose
from kernelwright.models._harm import without_harm


@dataclass(frozen=True)
class Part:
    key: str
    gain: float
    cost: float
    nodes: frozenset

    def overlaps(self, other):
        return bool(self.nodes & other.nodes)


def best_by_force(parts, budget):
    sets = itertools.chain.from_iterable(itertools.combinations(parts, n) for n in range(len(parts) + 1))
    fitting = [
        s for s in sets
        if sum(p.cost for p in s) <= budget and not any(a.overlaps(b) for a, b in itertools.combinations(s, 2))
    ]  # fmt: skip
    return max(sum(p.gain for p in s) for s in fitting)


def test_the_chosen_set_gains_the_most_and_never_overlaps():
    for seed in range(50):
        draw = random.Random(seed)
        parts = [
            Part(
                str(i),
                draw.uniform(-1, 5),
                draw.uniform(0.5, 3),
                frozenset(draw.sample(range(8), draw.randint(1, 4))),
            )
            for i in range(8)
        ]
        chosen = [p for p in parts if p.key in choose(parts, 5.0)]
        assert sum(p.gain for p in chosen) == pytest.approx(best_by_force(parts, 5.0))
        assert not any(a.overlaps(b) for a, b in itertools.combinations(chosen, 2))
        assert sum(p.cost for p in chosen) <= 5.0


def never(one, other):
    return False


def test_minutes_flow_to_the_greatest_remaining_gain_per_second():
    streams = [Stream("small", 10, 20, 10), Stream("large", 100, 200, 20), Stream("dear", 110, 200, 200)]
    assert next_of(streams, 1000, never, 1).key == "large"
    assert next_of(streams, 15, never, 1).key == "small"
    streams[1].searches = 3
    assert next_of(streams, 1000, never, 1).key == "small"


def test_a_region_stops_when_its_gain_is_reached_or_it_failed():
    streams = [Stream("norm", 50, 100, 10), Stream("mlp", 20, 100, 10)]
    streams[0].searches, streams[0].speedup = 1, 2.0
    assert next_of(streams, 1000, never, 1).key == "mlp"
    streams[1].failed = "it cannot be printed"
    assert next_of(streams, 1000, never, 1) is None


def test_what_overlaps_with_an_accepted_kernel_is_out():
    streams = [Stream("norm", 10, 100, 10), Stream("layer", 500, 900, 10)]
    assert next_of(streams, 1000, lambda a, b: a != b, 1).key == "layer"
    streams[0].speedup = 1.05
    assert next_of(streams, 1000, lambda a, b: a != b, 1).key == "norm"


def test_a_part_that_hurts_inside_is_taken_out_whatever_the_others_do():
    for seed in range(200):
        draw = random.Random(seed)
        effects = {i: draw.choice((-0.3, -0.1, 0.1, 0.2)) for i in range(draw.randint(1, 6))}
        kept, out = without_harm(
            list(effects), lambda parts, e=effects: max(0.05, 2.0 + sum(e[p] for p in parts)) / 2.0
        )
        assert all(effects[p] > 0 for p in kept) and all(effects[p] < 0 for p in out), effects


def test_a_wrong_part_is_found_with_few_measurements():
    asked = []

    def score(parts):
        asked.append(parts)
        return 0.0 if 5 in parts else 1.0 + 0.1 * len(parts)

    kept, out = without_harm(list(range(8)), score)
    assert out == (5,) and sorted(kept) == [0, 1, 2, 3, 4, 6, 7]
    assert len(asked) == len(set(asked)) <= 8 + 7


def test_two_parts_that_only_fail_together_cost_one_of_them():
    kept, out = without_harm(
        ["a", "b", "c"], lambda parts: 0.0 if {"a", "c"} <= set(parts) else 1.0 + 0.1 * len(parts)
    )
    assert len(out) == 1 and out[0] in "ac" and len(kept) == 2
