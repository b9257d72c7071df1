"""What our verdict on a program says: refused by a check, or not decided."""

from ..records import DecisionStatus, VerdictStatus
from ._records import Ours


def refused(check: str, reason: str) -> Ours:
    """Return that a program is refused."""
    return Ours(
        verdict=VerdictStatus.REJECTED, decision=DecisionStatus.REJECTED, reason=reason, failed=(check,)
    )


def unknown(reason: str) -> Ours:
    """Return that nothing follows."""
    return Ours(verdict=VerdictStatus.UNKNOWN, decision=DecisionStatus.UNKNOWN, reason=reason)
