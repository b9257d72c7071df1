"""Seconds left → the chance that something is decided in them: whether it is worth beginning.

To plan a model is to capture it, to call it and to compile a little; to decide on a program for it is to compile its
native forms, to verify and to time. Both take longer for a large model, on a slow machine and under load, so that the
one tells of the other: a decision took 14.6 times as long as the plan in the median of 27 runs, 14 of them decided in
their minutes (`python -m benchmarks.zoo.decided`). A region's own estimate is of an idle machine, and is stretched by
how much longer than its processor time the plan took. What runs in the store took moves both.

Covers: the size of the model or region, the machine, its load while planning, earlier runs on it.
Does not cover: load that comes or goes afterwards.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..records import DecisionStatus
from ..store import Store
from ._minutes import TIME_UP
from ._plan_records import Plan
from ._records import MODEL_PLAN, MODEL_RESULT, ModelResult

PLANS = 14.6
"""How many times as long as its plan a decision on a model takes, in the median."""
SLOPE = 3.5
"""How sharply the chance rises with the logarithm of the seconds."""
HOPELESS = 0.05
"""Chance of a decision below which nothing is begun."""
_SURE = 0.8
"""Chance of a decision with the minutes that are proposed."""
_SPREAD = 0.5
"""By how much the logarithm of what a machine takes differs from the above, before anything was seen of it."""
_STEPS = tuple(step / 20 for step in range(-30, 31))
_CLOSED = frozenset({DecisionStatus.IMPROVED, DecisionStatus.EQUAL, DecisionStatus.SLOWER})


@dataclass(frozen=True)
class Seen:
    """One earlier attempt at a decision."""

    times: float
    """Seconds that it had, or took, by those that a decision was expected to take."""
    decided: bool
    """Whether there was one."""


def chance_of(left_s: float, need_s: float) -> float:
    """Return the chance that something which takes about `need_s` seconds is decided in those that are left.

    Example:
        >>> round(chance_of(100.0, 100.0), 2), round(chance_of(200.0, 100.0), 2), round(chance_of(50.0, 100.0), 2)
        (0.5, 0.92, 0.08)
        >>> chance_of(0.0, 100.0), chance_of(100.0, 0.0)
        (0.0, 1.0)
    """
    if left_s <= 0.0 or need_s <= 0.0:
        return float(left_s > 0.0)
    return float(1.0 / (1.0 + (need_s / left_s) ** SLOPE))


def enough_s(need_s: float) -> float:
    """Return the seconds in which a decision falls in four of five cases.

    Example:
        >>> round(enough_s(100.0))
        149
    """
    return float(need_s * (_SURE / (1.0 - _SURE)) ** (1.0 / SLOPE))


def stretch_of(seconds: float, processor_s: float) -> float:
    """Return how many times as long as on an idle machine things take, by a plan's seconds and its processor's.

    Example:
        >>> stretch_of(30.0, 12.0), stretch_of(6.0, 12.0)
        (2.5, 1.0)
    """
    return max(seconds / processor_s, 1.0) if processor_s > 0.0 else 1.0


def factor_of(seen: Iterable[Seen]) -> float:
    """Return how many times as long as expected decisions take on this machine, by what was seen of it.

    Each attempt moves the belief, as far as it is unexpected; none of them alone by much.

    Example:
        >>> factor_of(()), factor_of([Seen(3.0, False)] * 4) > 2.0, factor_of([Seen(0.3, True)] * 4) < 0.6
        (1.0, True, True)
    """
    known = tuple(seen)

    def likely(step: float) -> float:
        prior = -0.5 * (step / _SPREAD) ** 2
        chances = ((chance_of(one.times, math.exp(step)), one.decided) for one in known)
        return prior + sum(math.log(max(c if decided else 1.0 - c, 1e-12)) for c, decided in chances)

    return math.exp(max(_STEPS, key=likely))


def seen_in(store: Store, device: str) -> list[Seen]:
    """Return the attempts at decisions on whole models that a store knows of on a device."""
    rows = map(json.loads, store.kept(MODEL_PLAN))
    plans = {row["origin"]: Plan.from_json(row["record"]) for row in rows}
    found = []
    for result in map(ModelResult.from_json, store.kept(MODEL_RESULT)):
        plan, decided = plans.get(result.origin), result.decision in _CLOSED
        if plan is None or result.device != device or result.trained or not plan.decided_s:
            continue
        times = (result.seconds - plan.seconds) / (PLANS * plan.seconds)
        if times > 0.0 and (decided or result.ended.startswith(TIME_UP)):
            found.append(Seen(times, decided))
    return found
