"""Detect disturbed blocks, whichever variant the disturbance hit.

Covers: a variant far above its own median, by the same rule for every variant, so that none is favoured.
Does not cover: a variant that is slow more often than one time in five; its blocks are then kept.
"""

from statistics import median

_LEAST = 5
"""Blocks before any is called disturbed."""
_FACTOR = 2.0
_SHARE = 0.2
"""Share of the blocks that may be repeated."""


class Noise:
    """Remembers the times of one workload's variants."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = {}
        self._repeated = 0
        self._seen = 0

    def disturbed(self, times_us: dict[str, float]) -> bool:
        """Whether a block should be repeated; if not, remember its times."""
        self._seen += 1
        if self._repeated < _SHARE * self._seen and any(
            self._far(variant, t) for variant, t in times_us.items()
        ):
            self._repeated += 1
            return True
        for variant, t in times_us.items():
            self._times.setdefault(variant, []).append(t)
        return False

    def _far(self, variant: str, time_us: float) -> bool:
        known = self._times.get(variant, [])
        return len(known) >= _LEAST and time_us > _FACTOR * median(known)
