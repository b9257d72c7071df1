"""Regions, minutes → which of them will probably be searched, and what their kernels will save together.

The budget's own rule is played through on many possible outcomes, each drawn from the intervals of the gains.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ._budget import MISSED, Overlaps, Stream, next_of, prior, total_us
from ._decided import chance_of
from ._plan_records import Gain

_WORLDS = 60
"""Possible outcomes that are played through."""
Rule = Callable[[Sequence[Stream], float, Overlaps, float], Stream | None]
"""Names the region to search next."""


@dataclass(frozen=True)
class Choice:
    """What a budget will probably be spent on."""

    tried: frozenset[str]
    """Regions that are searched in at least half of the outcomes."""
    gain: Gain
    """What their kernels save together."""


def choose(streams: Sequence[Stream], budget_s: float, overlaps: Overlaps, least_us: float) -> Choice:
    """Play the budget through on possible outcomes.

    Example:
        >>> sure = Stream("norm", Gain(low=4.0, expected=5.0, high=6.0), time_us=9.0, cost_s=1.0)
        >>> dear = Stream("mlp", Gain(low=0.0, expected=5.0, high=10.0), time_us=20.0, cost_s=9.0)
        >>> sorted(choose([sure, dear], 5.0, {"norm": frozenset(), "mlp": frozenset()}, 0.1).tried)
        ['norm']
    """
    worlds = []
    for world in range(_WORLDS):
        draw = random.Random(world)
        truth = {s.key: _drawn(s.gain, draw) for s in streams}
        worlds.append(play(streams, truth, budget_s, overlaps, least_us, draw))
    counts = Counter(s.key for played in worlds for s in played if s.searches)
    tried = frozenset(key for key, count in counts.items() if 2 * count >= _WORLDS)
    ends = sorted(
        total_us({s.key: s.saved_us for s in played if s.key in tried}, overlaps) for played in worlds
    )
    gain = Gain(low=ends[_WORLDS // 10], expected=fmean(ends), high=ends[-1 - _WORLDS // 10])
    return Choice(tried, gain)


def play(
    streams: Sequence[Stream], truth: dict[str, float], budget_s: float, overlaps: Overlaps, least_us: float,
    draw: random.Random, rule: Rule = next_of,
) -> list[Stream]:  # fmt: skip
    """Spend a budget by a rule, where each search reaches the truth or misses it by chance; return what came of it."""
    played = [replace(s, runs=[]) for s in streams]
    left_s = budget_s
    while (stream := rule(played, left_s, overlaps, least_us)) is not None:
        decided = draw.random() < chance_of(left_s, stream.cost_s)
        left_s -= stream.cost_s
        stream.searches += 1
        if draw.random() >= MISSED and decided:
            rest_us = max(stream.time_us - truth[stream.key], 1e-3 * stream.time_us)
            stream.speedup = max(stream.time_us / rest_us, 1.0)
    return played


def _drawn(gain: Gain, draw: random.Random) -> float:
    values, chances = zip(*prior(gain), strict=True)
    return float(draw.choices(values, chances)[0])
