"""What is kept of a trace: spans of time with what is needed to join them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a span is."""

    OPERATOR = "operator"
    """An operator on the host, such as `aten::mm`."""
    ANNOTATION = "annotation"
    """A range that the program or the profiler named."""
    RUNTIME = "runtime"
    """A call of the device's runtime or driver, such as `cudaLaunchKernel`."""
    KERNEL = "kernel"
    """A kernel on the device."""
    COPY = "copy"
    """A copy or fill of memory on the device."""


ON_DEVICE = frozenset({Kind.KERNEL, Kind.COPY})

_KINDS = {
    "cpu_op": Kind.OPERATOR, "operator": Kind.OPERATOR, "user_annotation": Kind.ANNOTATION,
    "cuda_runtime": Kind.RUNTIME, "cuda_driver": Kind.RUNTIME, "runtime": Kind.RUNTIME, "driver": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME, "privateuse1_runtime": Kind.RUNTIME, "mtia_runtime": Kind.RUNTIME,
    "kernel": Kind.KERNEL, "concurrent_kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY, "gpu_memset": Kind.COPY, "memcpy": Kind.COPY, "memset": Kind.COPY,
}  # fmt: skip
"""Categories of Kineto by version, in lower case. Synchronisation on a stream (`cuda_sync`) is a wait, not work."""


@dataclass(frozen=True, slots=True)
class Span:
    """One complete event."""

    kind: Kind
    """What it is."""
    name: str
    """Name of the operator, call or kernel."""
    place: tuple[str, str]
    """Process and thread on the host; device and stream on the device."""
    start_us: float
    """Start, microseconds of the trace's clock."""
    duration_us: float
    """Duration in microseconds."""
    correlation: int = -1
    """What joins a launch with what it launched; -1 where there is none."""

    @property
    def end_us(self) -> float:
        """End, microseconds of the trace's clock."""
        return self.start_us + self.duration_us


@dataclass(frozen=True)
class Trace:
    """The spans of a trace, each list in order of start."""

    name: str
    """Name of the file."""
    operators: tuple[Span, ...]
    """Operators on the host."""
    annotations: tuple[Span, ...]
    """Named ranges on the host."""
    runtime: tuple[Span, ...]
    """Calls of the device's runtime."""
    device: tuple[Span, ...]
    """Kernels and copies."""
    devices: tuple[str, ...] = ()
    """Names of the devices that the trace describes."""


def span_of(event: Mapping[str, object]) -> Span | None:
    """Return the span of an event; None for an event that is none, or of no kind that is used.

    Raises:
        ValueError: a complete event of a known kind has no number as start or duration.

    Example:
        >>> span_of({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 2}).end_us
        7.0
        >>> span_of({"ph": "M", "name": "process_name"}) is None
        True
    """
    kind = _KINDS.get(str(event.get("cat", "")).lower())
    if kind is None or event.get("ph") != "X":
        return None
    start, duration = event.get("ts"), event.get("dur", 0)
    if not isinstance(start, int | float) or not isinstance(duration, int | float) or not duration >= 0:
        raise ValueError(f"{event.get('name')!r} has ts {start!r} and dur {duration!r}")
    args = event.get("args")
    known: Mapping[str, object] = args if isinstance(args, Mapping) else {}
    place = str(event.get("pid", "")), str(event.get("tid", ""))
    if kind in ON_DEVICE and "stream" in known:
        place = str(known.get("device", place[0])), str(known["stream"])
    correlation = known.get("correlation", -1)
    return Span(
        kind, str(event.get("name", "")), place, float(start), float(duration),
        correlation if isinstance(correlation, int) else -1,
    )  # fmt: skip
