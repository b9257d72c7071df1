"""Join kernels with the calls that launched them, and those with the operators around them."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ._spans import Span, Trace

UNKNOWN = "(no operator)"
"""Stands for the operator of a launch outside any."""


@dataclass(frozen=True, slots=True)
class Linked:
    """Something on the device, with its launch."""

    span: Span
    """The kernel or copy."""
    launch: Span
    """The call of the runtime."""
    operator: Span | None
    """The innermost operator around the launch, on the launch's thread."""
    called: str = ""
    """The outermost operator of ATen around it, as the program calls it: `aten::conv2d`; empty if there is none."""
    follows: bool = False
    """Whether an earlier kernel came of the same launch, as in a CUDA graph."""

    @property
    def delay_us(self) -> float:
        """Microseconds from the launch's start to the kernel's, 0 where the clocks say less."""
        return max(self.span.start_us - self.launch.start_us, 0.0)

    @property
    def queue_us(self) -> float:
        """Microseconds from the end of the launching call to the kernel's start, 0 where it starts earlier."""
        return max(self.span.start_us - self.launch.end_us, 0.0)


def link(trace: Trace) -> tuple[Linked, ...]:
    """Join everything on the device with its launch by correlation, in order of start; what has no launch is left out.

    A correlation that several calls carry, as in a trace of several processes, means the last that began before it.
    """
    calls: dict[int, list[Span]] = {}
    for call in trace.runtime:
        if call.correlation >= 0:
            calls.setdefault(call.correlation, []).append(call)
    pairs = [
        (span, _launch(calls[span.correlation], span)) for span in trace.device if span.correlation in calls
    ]
    around = enclosing(trace.operators, [launch for _, launch in pairs])
    linked, seen = [], set()
    for (span, launch), operators in zip(pairs, around, strict=True):
        operator = operators[-1] if operators else None
        called = next((o.name for o in operators if o.name.startswith("aten::")), "")
        linked.append(Linked(span, launch, operator, called, follows=id(launch) in seen))
        seen.add(id(launch))
    return tuple(linked)


def _launch(calls: Sequence[Span], span: Span) -> Span:
    return calls[max(bisect_right(calls, span.start_us, key=lambda c: c.start_us) - 1, 0)]


def enclosing(operators: Iterable[Span], inside: Sequence[Span]) -> list[list[Span]]:
    """Return for each span the operators of its thread that enclose it, the outermost first."""
    found: list[list[Span]] = [[] for _ in inside]
    threads: dict[tuple[str, str], list[Span]] = {}
    for operator in operators:
        threads.setdefault(operator.place, []).append(operator)
    index: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for number, span in enumerate(inside):
        index.setdefault(span.place, []).append((span.start_us, number))
    for place, wanted in index.items():
        stack: list[Span] = []
        begun = sorted(threads.get(place, ()), key=lambda o: (o.start_us, -o.end_us))
        at = 0
        for start_us, number in sorted(wanted):
            while at < len(begun) and begun[at].start_us <= start_us:
                while stack and stack[-1].end_us <= begun[at].start_us:
                    stack.pop()
                stack.append(begun[at])
                at += 1
            end_us = inside[number].end_us
            found[number] = [o for o in stack if o.end_us >= end_us]
    return found


def self_times(operators: Iterable[Span]) -> list[float]:
    """Return for each operator, in order of start, its microseconds less those of the operators directly inside it."""
    spans = list(operators)
    own = [span.duration_us for span in spans]
    stacks: dict[tuple[str, str], list[int]] = {}
    for number in sorted(range(len(spans)), key=lambda n: (spans[n].start_us, -spans[n].end_us)):
        span, stack = spans[number], stacks.setdefault(spans[number].place, [])
        while stack and spans[stack[-1]].end_us <= span.start_us:
            stack.pop()
        if stack:
            own[stack[-1]] -= span.duration_us
        stack.append(number)
    return [max(us, 0.0) for us in own]
