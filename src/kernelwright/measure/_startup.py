"""Start-up time: loading, `prepare` and the first call. Pure functions over a `Timing`.

Covers: candidate against baseline, in fresh processes that have imported torch; the break-even number of calls.
Does not cover: building, which is done once and cached.
"""

import math
from collections.abc import Sequence

from ..records import CheckStatus, Contract, Finding, StartUp, Timing, Variant

CANDIDATE = "candidate"
"""Name of the variant being judged."""


def start_up(variants: Sequence[Variant], baseline: str, gain_us: float) -> StartUp | None:
    """Compare the slowest start of the candidate with that of a baseline; None if either was not measured.

    Args:
        variants: The variants of a measurement.
        baseline: Name of the variant to compare with.
        gain_us: Microseconds that the candidate saves per call; 0 or less if it saves none.

    Example:
        >>> slow = Variant(name="candidate", content="", symbol="", worker=1, load_us=900.0)
        >>> fast = slow.model_copy(update={"name": "eager", "load_us": 100.0})
        >>> start_up([slow, fast], "eager", gain_us=2.0).payback_calls
        400
    """
    own = [variant for variant in variants if variant.name == CANDIDATE]
    others = [variant.start_us for variant in variants if variant.name == baseline]
    if not own or not others:
        return None
    slowest = max(own, key=lambda variant: variant.start_us)
    extra_us = max(0.0, slowest.start_us - max(others))
    return StartUp(
        candidate_us=slowest.start_us,
        prepare_us=slowest.prepare_us,
        first_call_us=slowest.first_call_us,
        baseline_us=max(others),
        payback_calls=math.ceil(extra_us / gain_us) if gain_us > 0 else None,
    )


def in_time(timing: Timing, contract: Contract) -> Finding:
    """Refuse a candidate whose first answer takes longer than the contract allows."""
    slowest_s = (
        max((variant.start_us for variant in timing.variants if variant.name == CANDIDATE), default=0.0) / 1e6
    )
    late = slowest_s > contract.start_up_s
    return Finding(
        check="start-up",
        status=CheckStatus.FAIL if late else CheckStatus.PASS,
        message=f"the first answer took {slowest_s:.3g} s; allowed are {contract.start_up_s:g} s"
        if late
        else "",
        figures={"seconds": slowest_s},
    )
