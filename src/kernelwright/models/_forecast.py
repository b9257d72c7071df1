"""Screening → what the verdict on a model will say, expected before it is measured."""

from ..records import Interval
from ..store import Store

_AFTER_SCREENING = (0.89, 0.98, 1.03)
"""What a verdict says of a speedup, in shares of what the screening said: tenth, median and ninetieth of 82 kernels of
ops that were screened and then judged. What was picked for its speed was lucky, too."""


def before_verdict(screened: float) -> Interval:
    """Return the speedup over the best native form that is expected of what was screened at this one.

    Example:
        >>> print(before_verdict(2.0))
        1.96 (1.78 to 2.06)
    """
    low, middle, high = (screened * share for share in _AFTER_SCREENING)
    return Interval(median=middle, low=low, high=high)


def forecast_of(store: Store, run: str, candidate: str) -> Interval | None:
    """Return what was expected of a candidate when its verdict in a run began; none where it was not screened."""
    begun = [e for e in store.events(run) if e["event"] == "accept" and e.get("candidate") == candidate]
    speedup = begun[-1].get("speedup") if begun else None
    median = speedup.get("median") if isinstance(speedup, dict) else None
    return before_verdict(float(median)) if isinstance(median, float | int) else None
