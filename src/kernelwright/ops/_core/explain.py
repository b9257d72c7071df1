"""Explanation: what ran in a call, and why."""

from collections.abc import Callable
from dataclasses import dataclass

listeners: list[list["Explanation"]] = []
"""Who is told of each op that runs; empty but within `explain`."""


@dataclass(frozen=True)
class Explanation:
    """One op that ran."""

    op: str
    """Its name."""
    ran: str
    """`kernel` or `reference`."""
    why: str
    """Why it was the reference; empty for the kernel."""
    arguments: tuple[object, ...]
    """Shapes of tensor arguments, and the other arguments."""
    time_us: float
    """Wall microseconds, the first build included if this was the first call."""


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
