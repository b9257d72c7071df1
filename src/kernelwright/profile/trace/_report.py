"""All figures of a trace in one record."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from ...records import Record
from ._chains import Chain, chains_of
from ._idle import (
    BACK_TO_BACK_US,
    IdleCause,
    StreamIdle,
    computes,
    covered_us,
    idle_causes,
    stream_idle,
    union,
)
from ._launches import UNKNOWN, Linked, link, self_times
from ._regions import Change, Region, change_of, host_share, paces, region_of
from ._spans import Kind, Span, Trace

_GRAPH = "GraphLaunch"


class KernelUse(Record):
    """What runs of one kernel or copy took, summed, in microseconds."""

    name: str
    """Name of the kernel."""
    kind: Kind
    """Kernel or copy."""
    calls: int
    """How often it ran."""
    time_us: float
    """On the device."""
    launch_us: float
    """In the calls that launched it."""
    queue_us: float
    """From the end of those calls to its start: waiting in the queue."""
    delay_us: float
    """From the start of those calls to its start; its part of TKLQT."""


class OperatorUse(Record):
    """What one operator took, and what it launched."""

    name: str
    """Name of the operator."""
    calls: int
    """How often it ran."""
    self_us: float
    """On the host, without operators inside it."""
    kernels: tuple[tuple[str, ...], ...]
    """The different sequences of kernels that it launched itself, the most frequent first."""
    device_us: float
    """Time of those kernels on the device."""


class DeviceUse(Record):
    """What happened on the devices, in microseconds."""

    tklqt_us: float
    """Total kernel launch and queue time: from the start of each kernel's launch to the kernel's start, summed; for a
    CUDA graph its first kernel alone."""
    kernels: int
    """How many kernels."""
    mean_kernel_us: float
    """Mean duration of a kernel."""
    span_us: float
    """From the first start to the last end on each device, summed over devices."""
    busy_us: float
    """Time in which at least one stream was busy."""
    compute_us: float
    """Time in which at least one kernel computed."""
    idle: dict[IdleCause, float]
    """Idle time by cause."""
    streams: tuple[StreamIdle, ...]
    """Gaps of each stream."""
    host_share: float
    """Share of time in which the device had to wait for the host to launch, 0 to 1."""
    change: Change | None = None
    """Where the pace changes hands within the trace, if it does; each kernel counts alike, however long it is."""
    uses: tuple[KernelUse, ...] = ()
    """Kernels and copies, the longest together first."""
    chains: tuple[Chain, ...] = ()
    """Kernels that follow each other, those whose fusing saves most launches first."""
    unlinked: int = 0
    """Kernels and copies without a launch in the trace: not in TKLQT, the map and the chains."""
    graphs: int = 0
    """Launches of CUDA graphs."""
    backwards: int = 0
    """Kernels that start before their launch by the trace's clocks; they count as 0."""


class TraceReport(Record):
    """What a trace shows.

    Covers: one process's trace of CUDA, ROCm or the CPU, as recorded: the recording itself slows the host.
    Does not cover: why a kernel is slow; copies in TKLQT; what one host thread waits for from another.
    """

    trace: str
    """Name of the file."""
    region: Region
    """Who sets the pace most of the time, which a few kernels may take up."""
    operators: tuple[OperatorUse, ...]
    """Operators, the longest on the host first."""
    device: DeviceUse | None
    """What happened on the devices; None if nothing did, and then there is no figure that needs one."""


def analyse(trace: Trace, *, back_to_back_us: float = BACK_TO_BACK_US) -> TraceReport:
    """Compute all figures of a trace.

    Args:
        trace: The trace.
        back_to_back_us: Gaps below this between kernels already launched are not idle time that anyone could save.
    """
    linked = link(trace)
    device = _device(trace, linked, back_to_back_us) if trace.device else None
    region = region_of(device.host_share) if device else Region.NO_DEVICE
    return TraceReport(trace=trace.name, region=region, operators=_operators(trace, linked), device=device)


def _device(trace: Trace, linked: Sequence[Linked], back_to_back_us: float) -> DeviceUse:
    kernels = [one for one in linked if one.span.kind is Kind.KERNEL]
    graphs = {id(one.launch) for one in linked if _GRAPH in one.launch.name}
    of_device = defaultdict(list)
    for span in trace.device:
        of_device[span.place[0]].append(span)
    durations = [span.duration_us for span in trace.device if span.kind is Kind.KERNEL]
    found = paces(linked, trace.device)
    return DeviceUse(
        tklqt_us=math.fsum(one.delay_us for one in kernels if not one.follows),
        kernels=len(durations),
        mean_kernel_us=math.fsum(durations) / len(durations) if durations else 0.0,
        span_us=math.fsum(max(s.end_us for s in spans) - spans[0].start_us for spans in of_device.values()),
        busy_us=math.fsum(covered_us(union(spans)) for spans in of_device.values()),
        compute_us=math.fsum(covered_us(union(filter(computes, spans))) for spans in of_device.values()),
        idle=idle_causes(trace, linked),
        streams=stream_idle(trace, linked, back_to_back_us=back_to_back_us),
        host_share=host_share(found),
        change=change_of(found),
        uses=_uses(trace.device, linked),
        chains=chains_of(linked),
        unlinked=len(trace.device) - len(linked),
        graphs=len(graphs),
        backwards=sum(one.span.start_us < one.launch.start_us for one in linked),
    )


def _uses(device: Sequence[Span], linked: Sequence[Linked]) -> tuple[KernelUse, ...]:
    launched = {id(one.span): one for one in linked}
    groups: dict[tuple[str, Kind], list[Span]] = defaultdict(list)
    for span in device:
        groups[span.name, span.kind].append(span)
    uses = []
    for (name, kind), spans in groups.items():
        ones = [launched[id(span)] for span in spans if id(span) in launched]
        first = [one for one in ones if not one.follows]
        uses.append(
            KernelUse(
                name=name,
                kind=kind,
                calls=len(spans),
                time_us=math.fsum(s.duration_us for s in spans),
                launch_us=math.fsum(one.launch.duration_us for one in first),
                queue_us=math.fsum(one.queue_us for one in first),
                delay_us=math.fsum(one.delay_us for one in first),
            )
        )
    return tuple(sorted(uses, key=lambda u: (-u.time_us, u.name)))


def _operators(trace: Trace, linked: Sequence[Linked]) -> tuple[OperatorUse, ...]:
    calls: Counter[str] = Counter()
    self_us: dict[str, float] = defaultdict(float)
    for span, own_us in zip(trace.operators, self_times(trace.operators), strict=True):
        calls[span.name] += 1
        self_us[span.name] += own_us
    of_call: dict[int, list[Linked]] = defaultdict(list)
    for one in sorted(linked, key=lambda one: one.launch.start_us):
        of_call[id(one.operator) if one.operator else -1].append(one)
    sequences: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    device_us: dict[str, float] = defaultdict(float)
    for ones in of_call.values():
        operator = ones[0].operator
        name = operator.name if operator else UNKNOWN
        if operator:
            sequences[name][tuple(one.span.name for one in ones)] += 1
        else:
            sequences[name].update((one.span.name,) for one in ones)
            calls[name] += len(ones)
        device_us[name] += math.fsum(one.span.duration_us for one in ones)
    uses = [
        OperatorUse(
            name=name,
            calls=calls[name],
            self_us=self_us[name],
            device_us=device_us[name],
            kernels=tuple(s for s, _ in sequences[name].most_common()),
        )
        for name in calls
    ]
    return tuple(sorted(uses, key=lambda u: (-u.self_us, u.name)))
