"""Where the next minutes go, what will probably be tried, and which kernels to leave out: on planted values."""

import random
from statistics import fmean

import pytest

from kernelwright.models import Gain
from kernelwright.models._budget import MISSED, Stream, kept_of, next_of, total_us
from kernelwright.models._choose import choose, play
from kernelwright.models._harm import without_harm


def stream(key, expected, cost_s=10.0, *, low=None, high=None, time_us=1000.0, speedup=1.0, searches=0):
    gain = Gain(low=expected / 2 if low is None else low, expected=expected, high=high or 1.5 * expected)
    return Stream(key, gain, time_us, cost_s, speedup=speedup, searches=searches)


def apart(*streams):
    return {s.key: frozenset() for s in streams}


def together(*streams):
    return {s.key: frozenset({o.key for o in streams} - {s.key}) for s in streams}


def test_minutes_flow_to_the_search_that_is_worth_most_per_second():
    streams = [stream("small", 10, 10), stream("large", 100, 20), stream("dear", 110, 200)]
    assert next_of(streams, 1000, apart(*streams), 1).key == "large"
    assert next_of(streams, 15, apart(*streams), 1).key == "small"
    streams[1].searches = 5
    assert next_of(streams, 1000, apart(*streams), 1).key == "small", "five searches missed"


def test_a_region_stops_when_its_gain_is_reached_or_it_failed():
    streams = [stream("norm", 50, speedup=1.1, searches=1, high=60), stream("mlp", 20)]
    assert next_of(streams, 1000, apart(*streams), 1).key == "mlp", (
        "norm saves 91 us, more than was hoped for"
    )
    streams[1].failed = "it cannot be printed"
    assert next_of(streams, 1000, apart(*streams), 1) is None


def test_what_overlaps_with_a_kernel_in_hand_is_worth_what_it_may_save_beyond_it():
    sure = stream("sure", 60, low=55, high=65)
    wide = stream("wide", 50, low=0, high=300)
    norm = stream("norm", 60, low=60, high=60, speedup=1 / (1 - 0.06), searches=1)
    assert next_of([sure, wide], 1000, together(sure, wide), 1).key == "sure", "nothing is in hand yet"
    assert next_of([norm, sure, wide], 1000, together(norm, sure, wide), 1).key == "wide"
    assert next_of([norm, sure], 1000, together(norm, sure), 1) is None, (
        "at most 5 us more, in one case of ten"
    )


def test_kernels_are_used_together_where_they_do_not_overlap():
    overlaps = {
        "layer": frozenset({"norm", "mlp"}),
        "norm": frozenset({"layer"}),
        "mlp": frozenset({"layer"}),
    }
    assert kept_of({"norm": 3.0, "layer": 5.0, "mlp": 4.0}, overlaps) == ["layer"]
    assert total_us({"norm": 3.0, "layer": 0.0, "mlp": 4.0}, overlaps) == 7.0


def planted_model(draw):
    """Return operators, blocks of them, and the whole, of which some gain much or nothing."""
    streams, overlaps = [], {}
    for block in range(draw.randint(2, 5)):
        inside = [stream_of_operator(f"op {block}.{i}", draw) for i in range(draw.randint(2, 4))]
        mean = sum(s.gain.expected for s in inside) * draw.uniform(0.6, 1.6)
        low, high = (0.1, 3.0) if draw.random() < 0.6 else (0.7, 1.3)
        outer = stream(f"block {block}", mean, draw.choice((60, 90, 120)), low=low * mean, high=high * mean)
        streams += [*inside, outer]
        overlaps |= {s.key: frozenset({outer.key, "whole"}) for s in inside}
        overlaps[outer.key] = frozenset({"whole", *(s.key for s in inside)})
    mean = sum(s.gain.expected for s in streams if s.key.startswith("op")) * draw.uniform(0.3, 1.2)
    streams.append(stream("whole", mean, 150, low=0.0, high=2.2 * mean))
    return streams, overlaps | {"whole": frozenset(overlaps)}


def stream_of_operator(key, draw):
    gap = draw.uniform(5, 100) * draw.uniform(0.2, 0.9)
    low, mean, high = (0.0, 0.03, 0.2) if draw.random() < 0.4 else (0.2, 0.55, 0.85)
    return stream(key, mean * gap, draw.choice((45, 60, 90)), low=low * gap, high=high * gap)


def equal_shares(streams, left_s, overlaps, least_us):
    """Search each as often as the others, the most promising first."""
    fitting = [s for s in streams if s.cost_s <= left_s]
    return min(fitting, key=lambda s: (s.searches * s.cost_s, -s.gain.expected / s.cost_s), default=None)


def greedy_by_mean(streams, left_s, overlaps, least_us):
    """Take the greatest expected gain per second apart from what is in hand, as long as it is not reached."""
    worth = {s.key: max(s.gain.expected - s.saved_us, 0.0) * MISSED**s.searches for s in streams}
    in_hand = {s.key for s in streams if s.speedup > 1.0}
    fitting = [
        s for s in streams
        if s.cost_s <= left_s and worth[s.key] > least_us and overlaps[s.key].isdisjoint(in_hand)
    ]  # fmt: skip
    return max(fitting, key=lambda s: worth[s.key] / s.cost_s, default=None)


BUDGET_S, SEEDS = 360.0, 80


def uniform_between(gain, draw):
    """Draw a truth that the budget's own belief of three values does not hold."""
    if draw.random() < 0.1:
        return 0.0
    if draw.random() < 0.5:
        return draw.uniform(0.8 * gain.low, gain.expected)
    return draw.uniform(gain.expected, gain.high + 0.2 * (gain.high - gain.expected))


def test_by_the_worth_of_searches_more_is_saved_than_in_equal_shares_or_by_the_mean():
    saved = {rule: [] for rule in (next_of, equal_shares, greedy_by_mean)}
    for seed in range(SEEDS):
        streams, overlaps = planted_model(random.Random(seed))
        draw = random.Random(seed)
        truth = {s.key: uniform_between(s.gain, draw) for s in streams}
        for rule, found in saved.items():
            played = play(streams, truth, BUDGET_S, overlaps, 1.0, random.Random(seed), rule)
            found.append(total_us({s.key: s.saved_us for s in played}, overlaps))
            assert sum(s.searches * s.cost_s for s in played) <= BUDGET_S
    mine, equal, mean = (fmean(found) for found in saved.values())
    assert mine > 1.05 * max(equal, mean), (mine, equal, mean)


def test_the_choice_tells_what_is_tried_and_what_it_saves():
    streams = [stream("norm", 50, 10), stream("mlp", 5, 10), stream("layer", 200, 500)]
    found = choose(streams, 30.0, apart(*streams), 1.0)
    assert {"norm"} <= found.tried <= {"norm", "mlp"}
    assert found.gain.low <= found.gain.expected <= found.gain.high and 30 < found.gain.expected < 60
    none = choose(streams, 5.0, apart(*streams), 1.0)
    assert not none.tried and none.gain.high == 0.0


def test_a_part_that_hurts_inside_is_taken_out_whatever_the_others_do():
    for seed in range(200):
        draw = random.Random(seed)
        effects = {i: draw.choice((-0.3, -0.1, 0.1, 0.2)) for i in range(draw.randint(1, 6))}
        kept, out = without_harm(
            list(effects), lambda parts, e=effects: max(0.05, 2.0 + sum(e[p] for p in parts)) / 2.0
        )
        last = len(kept) == 1 and effects[kept[0]] > -0.2  # a few rounds cannot tell that it hurts
        assert (last or all(effects[p] > 0 for p in kept)) and all(effects[p] < 0 for p in out), effects


@pytest.mark.parametrize(("alone", "is_kept"), [(0.98, True), (0.93, True), (0.85, False)])
def test_the_last_part_is_judged_in_full_unless_it_surely_hurts(alone, is_kept):
    kept, _ = without_harm(["norm"], lambda _: alone)
    assert bool(kept) is is_kept


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
