"""What the screenings so far have shown, so that later ones need not find it out again.

Covers: how good the best was on each workload; which baselines may be the fastest; who is hopeless.
Does not cover: decisions; an acceptance times against every baseline and looks at nothing here.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from ..records import Block
from ..tasks import keeps_weights
from ._startup import CANDIDATE

_VERY_FAR, _FAR = 0.5, 0.8
"""A screening ends after one round, or after any later one, if all blocks are below this share of the best ratio."""
_CLOSE, _ROUNDS = 1.15, 3
"""A baseline that takes up to this many times as long as the fastest, over so many rounds, may be the fastest."""
_HOPELESS, _LEAST_HOPELESS_US = 5.0, 20_000.0
"""A call is hopeless if it takes this many times as long as the best candidate's, and so long at least."""


class Standing:
    """The best so far, by workload, and the baselines worth timing."""

    def __init__(self) -> None:
        self._best: dict[tuple[str, str], float] = {}
        """The best ratio to a baseline, by workload and baseline."""
        self._best_us: dict[str, float] = {}
        self.contenders: frozenset[str] | None = None
        """The baselines that may be the fastest somewhere; None while that is not known."""
        self.outpaced: frozenset[str] = frozenset()
        """The baselines that were outpaced while the last candidate was measured."""

    @property
    def hopeless_us(self) -> dict[str, float]:
        """The time of one call above which a candidate is hopeless, by workload."""
        return {name: max(_LEAST_HOPELESS_US, _HOPELESS * us) for name, us in self._best_us.items()}

    def is_far(self, blocks: Sequence[Block], rounds: int) -> bool:
        """Whether every block of a screening is so far from the best of its workload that more would tell nothing."""
        ratios, share = _ratios(blocks), _VERY_FAR if rounds == 1 else _FAR
        return bool(ratios) and all(
            max(found) < share * self._best.get(place, 0.0) for place, found in ratios.items()
        )

    def learn(self, blocks: Sequence[Block], baselines: Sequence[str]) -> None:
        """Note what a screening showed; `baselines` are all that were asked for, if it was against all of them.

        A baseline that keeps its weights does not stay alone: outputs of timed calls are compared with another's.
        """
        for place, found in _ratios(blocks).items():
            self._best[place] = max(median(found), self._best.get(place, 0.0))
        times = _times(blocks)
        for workload, by_name in times.items():
            mine_us = median(by_name.pop(CANDIDATE))
            self._best_us[workload] = min(mine_us, self._best_us.get(workload, math.inf))
        if self.contenders is None and _side_by_side(times, baselines):
            close = {name for by_name in times.values() for name in _close(by_name)}
            comparable = [name for name in baselines if not keeps_weights(name)]
            self.contenders = frozenset(close if close & set(comparable) else {*close, *comparable[:1]})


def _ratios(blocks: Sequence[Block]) -> dict[tuple[str, str], list[float]]:
    """Return the ratios of the baselines' times to the candidate's, by workload and baseline."""
    found: dict[tuple[str, str], list[float]] = {}
    for block in blocks:
        for name, us in block.times_us.items():
            if name != CANDIDATE and not block.repeated:
                found.setdefault((block.workload, name), []).append(us / block.times_us[CANDIDATE])
    return found


def _times(blocks: Sequence[Block]) -> dict[str, dict[str, list[float]]]:
    """Return the times of a call by workload and variant."""
    found: dict[str, dict[str, list[float]]] = {}
    for block in blocks:
        for name, us in block.times_us.items():
            found.setdefault(block.workload, {}).setdefault(name, []).append(us)
    return found


def _side_by_side(times: Mapping[str, Mapping[str, Sequence[float]]], baselines: Sequence[str]) -> bool:
    """Whether several baselines ran often enough to leave some out; one that is absent everywhere does not count."""
    ran = [set(by_name) for by_name in times.values()]
    enough = all(len(found) >= _ROUNDS for by_name in times.values() for found in by_name.values())
    return len(baselines) > 1 and bool(ran) and enough and all(names == ran[0] for names in ran)


def _close(by_name: Mapping[str, Sequence[float]]) -> list[str]:
    least_us = min(map(median, by_name.values()), default=0.0)
    return [name for name, found in by_name.items() if median(found) <= _CLOSE * least_us]
