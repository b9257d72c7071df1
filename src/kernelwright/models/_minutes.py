"""Minutes of a run → the part of the whole model as one program, of its regions, and of the verdict on them."""

from ..records import Budget

TIME_UP = "time was up"
"""Why a run ended that would have gone on."""
SHORTEST_S = 30.0
"""Seconds below which a search is not worth starting."""
_WHOLE_SHARE, _LEAST_WHOLE_S = 0.6, 120.0
"""Share of the minutes for the whole model, and seconds that it gets at least, where there are so many."""
_TRIED_SHARE = 0.75
"""Part of a search's seconds in which it tries programs; the rest is for their acceptance."""
_MOST_OF_LEFT = 0.8
"""Part of the seconds left that the search of a region has at most, so that programs are tried in three fifths of them:
accepting what was found first took 25 to 42 % of the seconds to a decision for three regions on an idle machine, and
55 % for a model on a busy one."""
_VERDICT_SHARE, _MOST_SHARE, _MOST_VERDICT_S = 0.4, 0.7, 300.0
_TIMES_ACCEPTED = 6.0
"""How many times as long as accepting a region's kernel the verdict on the model takes: its native forms are compiled,
sets of kernels are screened, and one is accepted (`benchmarks.pieces` under load: 200 seconds and 34)."""

_AGAIN, _LEAST_AGAIN_S = 1.25, 15.0


def whole_s(left_s: float) -> float:
    """Return the seconds that the whole model gets of those that are left.

    Example:
        >>> whole_s(600.0), whole_s(100.0)
        (360.0, 100.0)
    """
    return max(_WHOLE_SHARE * left_s, min(left_s, _LEAST_WHOLE_S))


def budget_of(share_s: float, left_s: float) -> Budget:
    """Return the budget of a search with a share of the minutes: what it finds is decided on in all that are left.

    It tries programs for three quarters of its share. One that was faster in a screening and is cut off before it is
    accepted is worth more than another search of as many seconds.

    Example:
        >>> budget = budget_of(240.0, 600.0)
        >>> budget.search_minutes, budget.minutes
        (3.0, 10.0)
    """
    return Budget(minutes=max(share_s, left_s) / 60, search_minutes=_TRIED_SHARE * share_s / 60)


def region_s(cost_s: float, left_s: float) -> float:
    """Return the share of the seconds left that the search of a region has, by what one takes.

    Example:
        >>> region_s(40.0, 300.0), region_s(90.0, 300.0), region_s(90.0, 60.0)
        (60.0, 90.0, 48.0)
    """
    return min(max(cost_s, 2 * SHORTEST_S), _MOST_OF_LEFT * left_s)


def verdict_s(left_s: float, accepted_s: float = 0.0) -> float:
    """Return the seconds that are kept for the verdict on the regions' kernels together.

    Args:
        left_s: Seconds that are left when the regions begin.
        accepted_s: The longest that accepting a kernel of a region has taken.

    Example:
        >>> verdict_s(280.0), verdict_s(280.0, 30.0), verdict_s(280.0, 60.0)
        (112.0, 180.0, 196.0)
    """
    wanted_s = max(_VERDICT_SHARE * left_s, _TIMES_ACCEPTED * accepted_s)
    return min(wanted_s, _MOST_SHARE * left_s, _MOST_VERDICT_S)


def again_s(verdict_s: float) -> float:
    """Return the seconds that are kept for another verdict, by those of the last: native forms are compiled by then.

    Example:
        >>> again_s(40.0), again_s(4.0)
        (50.0, 15.0)
    """
    return max(_AGAIN * verdict_s, _LEAST_AGAIN_S)


def regions_s(left_s: float) -> float:
    """Return the seconds in which regions are searched.

    Example:
        >>> regions_s(600.0)
        360.0
    """
    return left_s - verdict_s(left_s)
