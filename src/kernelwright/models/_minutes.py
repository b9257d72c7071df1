"""Minutes of a run → the part of the whole model as one program, of its regions, and of the verdict on them."""

SHORTEST_S = 30.0
"""Seconds below which a search is not worth starting."""
_WHOLE_SHARE, _LEAST_WHOLE_S = 0.6, 120.0
"""Share of the minutes for the whole model, and seconds that it gets at least, where there are so many."""
_VERDICT_SHARE, _MOST_VERDICT_S = 0.4, 300.0


def whole_s(left_s: float) -> float:
    """Return the seconds that the whole model gets of those that are left.

    Example:
        >>> whole_s(600.0), whole_s(100.0)
        (360.0, 100.0)
    """
    return max(_WHOLE_SHARE * left_s, min(left_s, _LEAST_WHOLE_S))


def verdict_s(left_s: float) -> float:
    """Return the seconds that are kept for the verdict on the regions' kernels together."""
    return min(_VERDICT_SHARE * left_s, _MOST_VERDICT_S)


def regions_s(left_s: float) -> float:
    """Return the seconds in which regions are searched.

    Example:
        >>> regions_s(600.0)
        360.0
    """
    return left_s - verdict_s(left_s)
