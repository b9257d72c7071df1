"""Explanation: what ran in a call, and why."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

listeners: list[list["Explanation"]] = []
"""Who is told of each op that runs; empty but within `explain`."""
watchers: list[list["Ran"]] = []
"""Who is told of what each op was given and wrote; empty but while a call is made that may be remembered."""
paused: list[object] = []
"""While it is not empty every call is checked."""


@dataclass(frozen=True)
class Ran:
    """One run of an op."""

    kernel: int
    """Address of the kernel; 0 of a reference."""
    arguments: tuple[Any, ...]
    outputs: Any


@dataclass(frozen=True)
class Explanation:
    """One op that ran."""

    op: str
    """Its name."""
    ran: str
    """`kernel`, `triton` on a GPU, or `reference`."""
    why: str
    """Why it was the reference; empty otherwise."""
    arguments: tuple[object, ...]
    """Shapes of tensor arguments, and the other arguments."""
    time_us: float
    """Wall microseconds, the first build included if this was the first call."""


@contextmanager
def watched() -> Iterator[list[Ran]]:
    """Give the runs of ops within."""
    ran: list[Ran] = []
    watchers.append(ran)
    try:
        yield ran
    finally:
        watchers[:] = [one for one in watchers if one is not ran]


@contextmanager
def unremembered() -> Iterator[None]:
    """Check every call within, and remember none."""
    paused.append(None)
    try:
        yield
    finally:
        paused.pop()


def explain(call: Callable[[], object]) -> list[Explanation]:
    """Run a call and return which ops it ran, by kernel or by reference, and why.

    Example:
        >>> import torch
        >>> from kernelwright import ops
        >>> x = torch.randn(100, 8)
        >>> [(one.op, one.ran) for one in explain(lambda: ops.kmeans.assign(x, x[:4]))]
        [('kmeans_assign', 'kernel')]
    """
    heard: list[Explanation] = []
    listeners.append(heard)
    try:
        call()
    finally:
        listeners[:] = [one for one in listeners if one is not heard]
    return heard
