"""When the device is idle, and why."""

import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import StrEnum

from ...records import Record
from ._launches import Linked
from ._spans import Kind, Span, Trace

BACK_TO_BACK_US = 30.0
"""Gaps below this between kernels that were already launched are what a device needs between two kernels.

Source: the default of HolisticTraceAnalysis, `get_idle_time_breakdown(consecutive_kernel_delay=30)`."""

_WAITS = re.compile(r"synchronize|EventQuery|StreamQuery", re.IGNORECASE)
_MEMORY = re.compile(r"^(cuda|cu|hip)(Mem)?(Host)?(Malloc|Free|Alloc|HostAlloc|HostRegister)", re.IGNORECASE)
_NO_WORK = re.compile(r"^nccl.*Kernel|Mem(cpy|set)")


class IdleCause(StrEnum):
    """Why the device does nothing."""

    HOST_WORK = "host work"
    """The host had not launched yet: it ran operators or other code."""
    HOST_WAITS = "host waits"
    """The host had not launched yet: it waited for the device."""
    HOST_MEMORY = "host memory"
    """The host had not launched yet: it allocated or freed memory."""
    LAUNCH = "launch"
    """The launch was under way, or what was launched follows back to back."""
    DEPENDENCY = "dependency"
    """Launched in time, and started late: it waited for another stream, an event or the device."""
    UNKNOWN = "unknown"
    """The trace does not say what launched the next kernel."""


class StreamIdle(Record):
    """The gaps between what runs on one stream, by HolisticTraceAnalysis's three categories, in microseconds."""

    device: str
    """The device."""
    stream: str
    """The stream."""
    host_wait_us: float
    """The launch began after the last kernel had ended: the host was too slow."""
    kernel_wait_us: float
    """Gaps shorter than back to back kernels have."""
    other_us: float
    """The rest, such as waits for other streams; launches that are not in the trace too."""


def stream_idle(
    trace: Trace, linked: Sequence[Linked], *, back_to_back_us: float = BACK_TO_BACK_US
) -> tuple[StreamIdle, ...]:
    """Break down the gaps of each stream."""
    launches = {id(one.span): one.launch.start_us for one in linked}
    streams: dict[tuple[str, str], list[Span]] = {}
    for span in trace.device:
        streams.setdefault(span.place, []).append(span)
    found = []
    for place, spans in sorted(streams.items()):
        waits = {"host": 0.0, "kernel": 0.0, "other": 0.0}
        for last, span in itertools.pairwise(spans):
            gap_us = span.start_us - last.end_us
            if launches.get(id(span), -math.inf) > last.end_us:
                waits["host"] += gap_us
            else:
                waits["kernel" if gap_us < back_to_back_us else "other"] += gap_us
        found.append(
            StreamIdle(
                device=place[0],
                stream=place[1],
                host_wait_us=waits["host"],
                kernel_wait_us=waits["kernel"],
                other_us=waits["other"],
            )
        )
    return tuple(found)


def union(spans: Iterable[Span]) -> list[tuple[float, float]]:
    """Return the stretches of time that spans cover, in order, none touching another.

    Example:
        >>> at = lambda start, end: Span(Kind.KERNEL, "k", ("0", "7"), start, end - start)
        >>> union([at(0.0, 2.0), at(1.0, 3.0), at(5.0, 6.0)])
        [(0.0, 3.0), (5.0, 6.0)]
    """
    merged: list[tuple[float, float]] = []
    for span in sorted(spans, key=lambda s: s.start_us):
        if merged and span.start_us <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], span.end_us)
        else:
            merged.append((span.start_us, span.end_us))
    return merged


def covered_us(stretches: Sequence[tuple[float, float]]) -> float:
    """Return how long stretches are together, in microseconds."""
    return math.fsum(end - start for start, end in stretches)


def computes(span: Span) -> bool:
    """Tell whether a span on the device computes: it is no copy, no fill and no collective."""
    return span.kind is Kind.KERNEL and not _NO_WORK.search(span.name)


def idle_causes(trace: Trace, linked: Sequence[Linked]) -> dict[IdleCause, float]:
    """Split the time in which no stream of a device does anything by cause, in microseconds; devices are added up."""
    found = dict.fromkeys(IdleCause, 0.0)
    launches = {id(one.span): one.launch.start_us for one in linked}
    waits = union(c for c in trace.runtime if _WAITS.search(c.name))
    memory = union(c for c in trace.runtime if _MEMORY.search(c.name))
    for device in sorted({span.place[0] for span in trace.device}):
        spans = [span for span in trace.device if span.place[0] == device]
        busy_until = spans[0].end_us
        for span in spans[1:]:
            if span.start_us > busy_until:
                launch_us = launches.get(id(span))
                for cause, us in _split(busy_until, span.start_us, launch_us, waits, memory):
                    found[cause] += us
            busy_until = max(busy_until, span.end_us)
    return found


def _split(
    start_us: float, end_us: float, launch_us: float | None, waits: Sequence[tuple[float, float]],
    memory: Sequence[tuple[float, float]],
) -> list[tuple[IdleCause, float]]:  # fmt: skip
    """Split one gap: until the launch by what the host did, from there on by the launch itself."""
    if launch_us is None:
        return [(IdleCause.UNKNOWN, end_us - start_us)]
    if launch_us <= start_us:
        late = end_us - start_us >= BACK_TO_BACK_US
        return [(IdleCause.DEPENDENCY if late else IdleCause.LAUNCH, end_us - start_us)]
    launch_us = min(launch_us, end_us)
    waited = _overlap(start_us, launch_us, waits)
    allocated = min(_overlap(start_us, launch_us, memory), launch_us - start_us - waited)
    return [
        (IdleCause.HOST_WAITS, waited),
        (IdleCause.HOST_MEMORY, allocated),
        (IdleCause.HOST_WORK, launch_us - start_us - waited - allocated),
        (IdleCause.LAUNCH, end_us - launch_us),
    ]


def _overlap(start_us: float, end_us: float, stretches: Sequence[tuple[float, float]]) -> float:
    total, at = 0.0, max(bisect_left(stretches, start_us, key=lambda s: s[1]), 0)
    while at < len(stretches) and stretches[at][0] < end_us:
        total += max(min(end_us, stretches[at][1]) - max(start_us, stretches[at][0]), 0.0)
        at += 1
    return total
