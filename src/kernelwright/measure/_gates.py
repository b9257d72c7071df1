"""Detect cheating in raw blocks. Pure functions over a `Timing`.

Covers: work deferred until the outputs are fetched, CPU or GPU time that does not match the wall clock, a GPU that
something uses before the clock starts or after it stopped, a late first answer.
Does not cover: work deferred until after the outputs were fetched; the process audit detects that.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from ..records import Block, CheckStatus, Contract, Finding, Timing
from ._interval import limits
from ._sequential import WARM
from ._startup import CANDIDATE, in_time

GPU_HELD = "gpu-held"
"""Name of the check of what had a GPU while the judge held it."""
_SHOWN = 0.5
"""Share of the gain that must remain when call and fetch are added."""
_UNREAD_SHARE = 0.25
"""Share of the blocks in which a GPU's outputs may be copied by the candidate's worker alone: its memory has grown."""
_NOTABLE = 1.05
"""Ratio below which there is no gain that deferred work could explain."""
_LEVEL = 0.005
Spent = Mapping[str, tuple[float, float]]
"""Microseconds of a block's calls and of fetching their outputs, by variant."""
_CPU_SLACK = 1.25
_READABLE_US = 10_000.0
"""CPU time too short to judge: some systems count it in ticks."""
_HANDSHAKE_US, _CLOCK_SLACK = 2_000.0, 0.25
"""Allowed difference between the GPU's clock and the judge's: request and reply."""
_REQUEST_US = 250.0
"""CPU time per block that a worker may use around its calls: tens of microseconds per thread until it is idle."""
_TAKEN_US = 100.0
"""Microseconds taken of the judge's hold on a GPU that are no stutter of the device."""
_TAKEN_SHARE = 0.25
"""Share of the blocks in which that may happen: fewer move no median."""
_LEFT_US, _LEFT_SHARE = 50.0, 0.02
"""Microseconds, and share of a block's calls, by which a GPU may be free later than after others' calls."""


def gates(timing: Timing, cores: int, contract: Contract) -> list[Finding]:
    """Return the findings of every gate.

    Args:
        timing: Raw blocks.
        cores: Cores that a worker may use.
        contract: Limits the time to the first answer.
    """
    blocks = [b for b in timing.blocks if not b.repeated and CANDIDATE in b.times_us]
    by_workload: dict[tuple[str, bool], list[Block]] = {}
    for block in blocks:
        by_workload.setdefault((block.workload, block.phase == WARM), []).append(block)
    found = [_deferred(by_workload), _clocks(blocks, cores, timing), in_time(timing, contract)]
    held = [b for b in blocks if CANDIDATE in b.taken_us]
    return [*found, _held(held, timing)] if held else found


def _deferred(by_workload: Mapping[tuple[str, bool], Sequence[Block]]) -> Finding:
    """Compare the gain in call time with the gain in call and fetch together, by either clock."""
    check = "deferred-work"
    every = [block for blocks in by_workload.values() for block in blocks]
    unread = [block for block in every if set(block.fetch_us) == {CANDIDATE} and len(block.times_us) > 1]
    if len(unread) > _UNREAD_SHARE * len(every):
        message = "outputs lie where the judge cannot read them while the worker is stopped; let torch allocate them"
        return Finding(check=check, status=CheckStatus.UNKNOWN, message=message)
    for (workload, _), blocks in by_workload.items():
        for variant in sorted(set(blocks[0].times_us) - {CANDIDATE}):
            both = [b for b in blocks if variant in b.times_us]
            if any(variant not in b.fetch_us or CANDIDATE not in b.fetch_us for b in both):
                continue
            clocks = ([spent(b) for b in both] for spent in (_wall_us, _processor_us))
            if any(_put_off(clock, variant) for clock in clocks):
                return Finding(
                    check=check,
                    status=CheckStatus.FAIL,
                    message="the time saved in the call comes back when the outputs are fetched",
                    workload=workload,
                )
    return Finding(check=check, status=CheckStatus.PASS)


def _wall_us(block: Block) -> Spent:
    return {
        variant: (time_us * block.calls, block.fetch_us[variant])
        for variant, time_us in block.times_us.items()
    }


def _processor_us(block: Block) -> Spent:
    """Return CPU time, which load does not stretch: on a busy machine the wall clock shows neither gain nor loss."""
    known = block.cpu_us.keys() & block.fetch_cpu_us.keys()
    return {variant: (block.cpu_us[variant] * block.calls, block.fetch_cpu_us[variant]) for variant in known}


def _put_off(blocks: Sequence[Spent], variant: str) -> bool:
    """Whether the candidate is certainly faster in the call and certainly loses half of that in the fetch."""
    if not all(min(b.get(name, (0.0, 0.0))) > 0 for b in blocks for name in (variant, CANDIDATE)):
        return False
    called = [math.log(b[variant][0] / b[CANDIDATE][0]) for b in blocks]
    if limits(called, level_low=_LEVEL, level_high=_LEVEL).low < math.log(_NOTABLE):
        return False
    fetch = median(b[variant][1] for b in blocks)
    honest = (median(b[variant][0] for b in blocks) + fetch) / (
        median(b[CANDIDATE][0] for b in blocks) + fetch
    )
    whole = [math.log(sum(b[variant]) / sum(b[CANDIDATE])) for b in blocks]
    return limits(whole, level_low=_LEVEL, level_high=_LEVEL).high < math.log(1 + _SHOWN * (honest - 1))


def _clocks(blocks: Sequence[Block], cores: int, timing: Timing) -> Finding:
    """Compare the worker's CPU time with what the wall clock allows."""
    check = "two-clocks"
    apart = _apart(blocks)
    if apart:
        return _unless_shared(check, apart, timing)
    read = [b for b in blocks if CANDIDATE in b.cpu_us]
    cpu_us = sum(b.cpu_us[CANDIDATE] * b.calls for b in read)
    wall_us = sum(b.times_us[CANDIDATE] * b.calls for b in read)
    if cpu_us <= 0 and sum(b.times_us[CANDIDATE] * b.calls for b in blocks) >= _READABLE_US:
        return Finding(check=check, status=CheckStatus.UNKNOWN, message="no CPU time could be read")
    share = cpu_us / wall_us if wall_us else 0.0
    if share > cores * _CPU_SLACK and cpu_us - cores * wall_us > _READABLE_US + _REQUEST_US * len(read):
        return Finding(
            check=check,
            status=CheckStatus.FAIL,
            message="the worker used more CPU time than the wall clock leaves room for",
            figures={"share": share},
        )
    return Finding(check=check, status=CheckStatus.PASS, figures={"share": share})


def _held(blocks: Sequence[Block], timing: Timing) -> Finding:
    """Look at what had a GPU while the judge held it: before the clock started, and after it had stopped."""
    taken = [most for b in blocks if (most := max(b.taken_us.values())) > _TAKEN_US]
    late_us = _left_us(blocks)
    block_us = median(b.times_us[CANDIDATE] * b.calls for b in blocks)
    message = ""
    if len(taken) > _TAKEN_SHARE * len(blocks):
        message = f"something had the GPU for {median(taken):.3g} us before the clock started"
    elif late_us > max(_LEFT_US, _LEFT_SHARE * block_us):
        message = f"the GPU was at work for {late_us:.3g} us after the reply"
    if not message:
        return Finding(check=GPU_HELD, status=CheckStatus.PASS, figures={"taken": len(taken) / len(blocks)})
    return _unless_shared(GPU_HELD, message, timing)


def _unless_shared(check: str, message: str, timing: Timing) -> Finding:
    """Return what speaks against a candidate, or nothing certain where others use the GPU too."""
    if timing.shared_us > 0:
        message += ", as it was with no candidate there: other processes use it"
        return Finding(check=check, status=CheckStatus.UNKNOWN, message=message)
    if timing.others:
        message += f"; {timing.others} other processes have it open, which may have done that"
        return Finding(check=check, status=CheckStatus.UNKNOWN, message=message)
    return Finding(check=check, status=CheckStatus.FAIL, message=message)


def _left_us(blocks: Sequence[Block]) -> float:
    """Return how much later than after all others a GPU was free after the candidate's calls."""
    names = {name for block in blocks for name in block.left_us}
    usual = {name: median(b.left_us[name] for b in blocks if name in b.left_us) for name in names}
    return usual.pop(CANDIDATE) - max(usual.values(), default=0.0)


def _apart(blocks: Sequence[Block]) -> str:
    """Report a difference between the GPU's clock and the judge's: both span the same calls.

    What the judge's clock has more of for every variant of the same blocks, as on a busy machine, is no sign.
    """
    known = [b for b in blocks if CANDIDATE in b.device_us]
    if not known:
        return ""
    wall_us = median(b.times_us[CANDIDATE] * b.calls for b in known)
    gaps: dict[str, list[float]] = {}
    for block in known:
        for name in block.device_us.keys() & block.times_us.keys():
            gaps.setdefault(name, []).append((block.times_us[name] - block.device_us[name]) * block.calls)
    gap_us = median(gaps.pop(CANDIDATE))
    usual_us = max((median(g) for g in gaps.values()), default=0.0)
    odd_us = max(gap_us - max(usual_us, 0.0), 0.0) if gap_us > 0 else -gap_us
    if odd_us <= max(_HANDSHAKE_US, _CLOCK_SLACK * wall_us):
        return ""
    return f"the GPU's clock says {wall_us - gap_us:.3g} us where the judge's says {wall_us:.3g} us"
