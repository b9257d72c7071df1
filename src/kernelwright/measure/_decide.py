"""Raw blocks, verdict, bounds and contract → Decision. Pure: the same records give the same decision.

Covers: noise and drift that both variants of a block share, best-of-many selection, early stopping, a baseline
chosen after the fact, single slow workloads, times below physics, gains that do not come back when confirmed.
Does not cover: a machine that favours one process for as long as both measurement and confirmation last.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import geometric_mean

from ..records import (
    Block,
    Bound,
    Contract,
    Decision,
    DecisionStatus,
    Interval,
    Timing,
    Verdict,
    VerdictStatus,
    WorkloadDecision,
)  # fmt: skip
from ..tasks import caveat
from ._carry_over import CarryOver, Classes, carry_over
from ._estimate import (
    Estimate,
    against_all,
    against_the_fastest,
    baselines_of,
    blocks_of,
    estimate,
    interval,
    median_us,
    with_warm,
)  # fmt: skip
from ._racing import missing, outpaced
from ._sequential import CONFIRM_LOOKS, WARM, share
from ._startup import CANDIDATE, start_up

NOT_HELD = (
    "on this GPU the inputs were there before the clock started, as its memory could not be shared with workers: "
    "computing ahead could not be seen"
)
"""The caveat of a gain on a GPU that the judge did not hold."""
EXACT = "TF32 was off for all; torch ships with it on for convolutions, so that a native one may be faster elsewhere"
"""The caveat of every gain on a GPU."""
_FUTILE_BLOCKS, _FUTILE_RATIO = 3, 0.75
"""This many blocks, all with at most this ratio to the baseline, are enough to call a candidate slower if
no block of the candidate is as fast as the baseline's slowest: fluctuating load hits both."""


def decide(
    timing: Timing | None,
    verdict: Verdict,
    bounds: Sequence[Bound],
    contract: Contract,
    *,
    tried: int = 1,
    confirmation: Timing | None = None,
) -> Decision:
    """Decide on one candidate.

    `improved` needs an accepted verdict, a lower limit of the ratio above `1 + least_effect` against every
    baseline, no slower search workload, and a confirmation that agrees. Without a confirmation the
    best outcome is `inconclusive`.

    Args:
        timing: The blocks of the search workloads; None if nothing was timed.
        verdict: The verification's findings, including those from timed calls.
        bounds: The least time by workload, as far as known.
        contract: Smallest effect and confidence.
        tried: How many candidates this one was picked from; divides the error (Bonferroni).
        confirmation: The blocks of fresh workers on the search and confirm workloads.
            A stored timing contains both; its blocks of phase `confirm` are then the confirmation.
    """
    if timing is not None and confirmation is None:
        timing, confirmation = _parted(timing)
    early = _without_timing(timing, verdict)
    if early is not None or timing is None:
        return early or _undecided(verdict, "time was up before it was timed")
    by_workload = blocks_of(timing.blocks)
    if not by_workload and (carried := refuted_before(timing, contract)).lost_on:
        return _lost(verdict, carried)
    baselines = baselines_of(by_workload)
    if not by_workload or not baselines:
        return _undecided(verdict, "no undisturbed block holds both the candidate and a baseline")
    if absent := missing(by_workload) or missing(blocks_of(confirmation.blocks if confirmation else ())):
        return _undecided(
            verdict, f"left out of some blocks, though perhaps the fastest: {', '.join(absent)}"
        )
    error = (1 - contract.confidence) / 2
    rounds = min(len(blocks) for blocks in by_workload.values())
    spent = error * share(rounds)
    estimates = [estimate(by_workload, name, spent / max(1, tried), spent, bounds) for name in baselines]
    hardest = min(estimates, key=lambda e: (e.overall.median, e.baseline))
    per_workload = with_warm(against_the_fastest(estimates), confirmation)
    alarms = _alarms(timing, bounds) or (_alarms(confirmation, bounds) if confirmation else ())
    status, reason = _weigh(estimates, per_workload, by_workload, contract)
    confirmed, carried = False, CarryOver()
    if status is DecisionStatus.IMPROVED:
        confirmed, doubt, carried = _confirm(confirmation, set(by_workload), bounds, contract, error)
        per_workload += carried.workloads
        if not confirmed:
            status, reason = DecisionStatus.INCONCLUSIVE, doubt
        else:
            carried = replace(carried, caveats=(*carried.caveats, *_of_gpu(timing)))
            reason = "; ".join((reason, *carried.caveats))
    gains = [w.baseline_us - w.time_us for w in per_workload if w.workload in by_workload]
    variants = (*timing.variants, *(confirmation.variants if confirmation else ()))
    start = start_up(variants, hardest.baseline, sum(gains) / len(gains))
    if status is DecisionStatus.IMPROVED and start and (start.payback_calls or 0) > contract.payback_calls:
        reason = f"{reason}; its start-up pays back after {start.payback_calls} calls only"
    if timing.weights and (remark := caveat(hardest.baseline)):
        reason = f"{reason}; {remark}"
    if alarms:
        status, reason = DecisionStatus.UNKNOWN, f"too good to be true: {', '.join(alarms)}"
    return Decision(
        candidate=verdict.candidate,
        status=status,
        reason=reason,
        baseline=hardest.baseline,
        speedup=_reported(by_workload, hardest, error),
        workloads=per_workload,
        against=against_all(by_workload),
        time_us=geometric_mean(median_us(b, CANDIDATE) for b in by_workload.values()),
        bound_us=_bound_us(by_workload, bounds),
        blocks=sum(len(b) for b in by_workload.values()),
        confirmed=confirmed,
        lost=carried.lost,
        lost_on=carried.lost_on,
        caveats=carried.caveats if confirmed else (),
        alarms=alarms,
        start_up=start,
    )


def worth_confirming(
    timing: Timing | None, verdict: Verdict, bounds: Sequence[Bound], contract: Contract, *, tried: int = 1
) -> bool:
    """Whether a measurement would become `improved` if a confirmation gave the same figures."""
    return decide(timing, verdict, bounds, contract, tried=tried, confirmation=timing).confirmed


def _of_gpu(timing: Timing) -> tuple[str, ...]:
    """Say how a GPU computed, and what could not be seen where the judge could not share its memory with workers."""
    seen = any(block.taken_us for block in timing.blocks)
    on_gpu = any(block.device_us for block in timing.blocks)
    if not on_gpu:
        return ()
    return (EXACT,) if seen else (EXACT, NOT_HELD)


def left_out(timing: Timing) -> set[str]:
    """Name the baselines that a stored timing may lack in some of its blocks: those that another one outpaced."""
    first, again = _parted(timing)
    found = set(outpaced(blocks_of(first.blocks)))
    return found | set(outpaced(blocks_of(again.blocks) if again else {}))


def _parted(timing: Timing) -> tuple[Timing, Timing | None]:
    """Split a stored timing into measurement and confirmation."""
    later = {"confirm", WARM}
    first = tuple(b for b in timing.blocks if b.phase not in later)
    again = tuple(b for b in timing.blocks if b.phase in later)
    if not first or not again:
        return timing, None
    return timing.model_copy(update={"blocks": first}), timing.model_copy(update={"blocks": again})


def settled(blocks: Sequence[Block], contract: Contract, tried: int = 1) -> bool:
    """Whether the blocks so far are conclusive, so that measurement may stop."""
    by_workload = blocks_of(blocks)
    baselines = baselines_of(by_workload)
    if not by_workload or not baselines:
        return True
    spent = (1 - contract.confidence) / 2 * share(min(len(b) for b in by_workload.values()))
    estimates = [estimate(by_workload, name, spent / max(1, tried), spent, ()) for name in baselines]
    status, _ = _weigh(estimates, against_the_fastest(estimates), by_workload, contract)
    return status is not DecisionStatus.INCONCLUSIVE


def refuted_before(timing: Timing, contract: Contract) -> CarryOver:
    """Weigh the blocks on the confirm workload that refused an earlier candidate, before all else is measured."""
    error = (1 - contract.confidence) / 2 / len(CONFIRM_LOOKS)
    return carry_over(blocks_of(timing.blocks, refuter=True), timing.classes, contract, error, ())


def _lost(verdict: Verdict, carried: CarryOver) -> Decision:
    return Decision(
        candidate=verdict.candidate,
        status=DecisionStatus.INCONCLUSIVE,
        reason=_does_not_carry_over(carried),
        workloads=carried.workloads,
        lost=carried.lost,
        lost_on=carried.lost_on,
    )


def _does_not_carry_over(carried: CarryOver) -> str:
    if not carried.lost:
        return "the gain does not carry over to the confirm workloads"
    return f"the gain does not carry over to the confirm workloads: {carried.lost}"


def confirmed(
    blocks: Sequence[Block], searched: set[str], contract: Contract, classes: Classes | None = None
) -> bool:
    """Whether the blocks of a confirmation so far agree, so that it may stop."""
    timing = Timing(variants=(), blocks=tuple(blocks), cache="", device="", classes=dict(classes or {}))
    return _confirm(timing, searched, (), contract, (1 - contract.confidence) / 2)[0]


def refuted(
    blocks: Sequence[Block], searched: set[str], contract: Contract, classes: Classes | None = None
) -> bool:
    """Whether the blocks of a confirmation so far rule out a gain, so that it may stop."""
    found = blocks_of(blocks)
    again = {n: b for n, b in found.items() if n in searched}
    new = {n: b for n, b in found.items() if n not in searched}
    error = (1 - contract.confidence) / 2 / len(CONFIRM_LOOKS)
    if carry_over(new, classes or {}, contract, error, ()).sure:
        return True
    ratios = [interval(estimate(again, name, error, error, ()).overall) for name in baselines_of(again)]
    return any(ratio.at_most <= 1 + contract.least_effect for ratio in ratios)


def _without_timing(timing: Timing | None, verdict: Verdict) -> Decision | None:
    """Decide if the verdict alone settles it."""
    if verdict.status is VerdictStatus.REJECTED:
        failed = next(f for f in verdict.findings if f.status == "fail")
        return Decision(
            candidate=verdict.candidate,
            status=DecisionStatus.REJECTED,
            reason=f"{failed.check}: {failed.message}" if failed.message else failed.check,
        )
    if verdict.status is VerdictStatus.UNKNOWN:
        open_ = next((f for f in verdict.findings if f.status == "unknown"), None)
        reason = f"{open_.check} could not be checked: {open_.message}" if open_ else "nothing was checked"
        return _undecided(verdict, reason)
    if timing is not None and any(not _possible(b) for b in timing.blocks):
        return Decision(
            candidate=verdict.candidate,
            status=DecisionStatus.UNKNOWN,
            reason="a time that is not a positive finite number was recorded",
            alarms=("impossible-time",),
        )
    return None


def _undecided(verdict: Verdict, reason: str) -> Decision:
    return Decision(candidate=verdict.candidate, status=DecisionStatus.UNKNOWN, reason=reason)


def _possible(block: Block) -> bool:
    return all(math.isfinite(t) and t > 0 for t in block.times_us.values())


def _reported(by_workload: dict[str, list[Block]], hardest: Estimate, error: float) -> Interval:
    """Return the interval used for the decision; before the first look, that of a single look."""
    if math.isfinite(hardest.overall.low):
        return interval(hardest.overall)
    return interval(estimate(by_workload, hardest.baseline, error, error, ()).overall)


def _weigh(
    estimates: Sequence[Estimate],
    per_workload: Sequence[WorkloadDecision],
    by_workload: dict[str, list[Block]],
    contract: Contract,
) -> tuple[DecisionStatus, str]:
    """Compare the limits with the smallest effect."""
    gain = 1 + contract.least_effect
    hardest = min(estimates, key=lambda e: (e.overall.median, e.baseline))
    ratio, name = interval(hardest.overall), hardest.baseline
    if ratio.at_most < 1 / gain or _futile(by_workload, name):
        return DecisionStatus.SLOWER, f"{ratio.median:.3g} times as fast as {name}"
    if all(interval(e.overall).at_least > gain for e in estimates):
        slow = min(per_workload, key=lambda w: w.speedup.median)
        if slow.speedup.at_most < 1 / gain:
            return (
                DecisionStatus.SLOWER,
                f"{ratio.median:.3g} times as fast as {name} overall, but slower on {slow.workload}",
            )
        if slow.speedup.median < 1 / gain:
            return DecisionStatus.INCONCLUSIVE, f"faster overall, but perhaps slower on {slow.workload}"
        return DecisionStatus.IMPROVED, f"at least {ratio.at_least:.3g} times as fast as {name}"
    if ratio.at_most <= gain:
        return DecisionStatus.EQUAL, f"the gain over {name} is at most {ratio.at_most - 1:.1%}"
    return (
        DecisionStatus.INCONCLUSIVE,
        f"the ratio to {name} is {ratio} after {hardest.rounds} rounds",
    )


def _futile(by_workload: dict[str, list[Block]], baseline: str) -> bool:
    """Whether every one of a few blocks is far slower, so that more blocks are a waste."""
    return all(
        len(blocks) >= _FUTILE_BLOCKS
        and all(b.times_us[baseline] < _FUTILE_RATIO * b.times_us[CANDIDATE] for b in blocks)
        and max(b.times_us[baseline] for b in blocks) < min(b.times_us[CANDIDATE] for b in blocks)
        for blocks in by_workload.values()
    )


def _confirm(
    confirmation: Timing | None,
    searched: set[str],
    bounds: Sequence[Bound],
    contract: Contract,
    error: float,
) -> tuple[bool, str, CarryOver]:
    """Check whether the confirmation agrees; return that, a remark, and whether the gain carries over."""
    blocks = blocks_of(confirmation.blocks) if confirmation else {}
    if confirmation is None or not blocks:
        return False, "faster, not yet confirmed in a fresh process", CarryOver()
    baselines = baselines_of(blocks)
    again = {name: b for name, b in blocks.items() if name in searched} or blocks
    new = {name: b for name, b in blocks.items() if name not in searched}
    if not baselines:
        return False, "the confirmation holds no baseline", CarryOver()
    gain, error = 1 + contract.least_effect, error / len(CONFIRM_LOOKS)
    for name in baselines:
        ratio = interval(estimate(again, name, error, error, bounds).overall)
        if not (ratio.at_least > 1 and ratio.median > gain):
            doubt = f"a fresh process did not confirm it: {ratio}"
            return False, f"{doubt} times as fast as {name}", CarryOver()
    carried = carry_over(new, confirmation.classes, contract, error, bounds)
    return not carried.lost_on, _does_not_carry_over(carried) if carried.lost_on else "", carried


def _alarms(timing: Timing, bounds: Sequence[Bound]) -> tuple[str, ...]:
    """Flag a candidate whose median is below the device's bound."""
    blocks = blocks_of(timing.blocks)
    least = {b.workload: b.time_us * (1 - b.slack) for b in bounds}
    fast = any(median_us(b, CANDIDATE) < least.get(name, 0.0) for name, b in blocks.items())
    return ("faster-than-physics",) if fast else ()


def _bound_us(names: dict[str, list[Block]], bounds: Sequence[Bound]) -> float:
    """Return the geometric mean of what is attainable, or 0 if a bound is missing."""
    least = {b.workload: b.attainable_us for b in bounds}
    known = [least.get(name, 0.0) for name in names]
    return geometric_mean(known) if all(t > 0 for t in known) else 0.0
