"""Explanation: what would serve a call, or did, and why."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...errors import InputError

plans: list[list["Explanation"]] = []
"""Who is told of each op that would run; empty but within `explain`."""
listeners: list[list["Explanation"]] = []
"""Who is told of each op that runs; empty but within `watch`."""
watchers: list[list["Ran"]] = []
"""Who is told of what each op was given and wrote; empty but while a call is made that may be remembered."""
paused: list[object] = []
"""While it is not empty every call is checked."""


@dataclass(frozen=True)
class Ran:
    """One run of an op."""

    kernel: int
    """Address of the kernel; 0 of a reference, and of a call that others of its shape may not be like."""
    arguments: tuple[Any, ...]
    outputs: Any
    number: int
    """What was chosen for the call; -1: nothing."""


@dataclass(frozen=True)
class Explanation:
    """One op of a call."""

    op: str
    """Its name."""
    serves: str
    """`kernel`, `triton` on a GPU, or `reference`."""
    why: str
    """Why it is the reference; empty otherwise."""
    variant: str
    """Of a kernel: the processor it is built for, and the number of its template with where it comes from."""
    arguments: tuple[object, ...]
    """Shapes of tensor arguments, and the other arguments."""
    time_us: float = 0.0
    """Wall microseconds where it was run, the first build included if this was the first call."""


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
    """Say which ops a call would run, which variant would serve each, and why, without running any.

    Nothing is computed, built or tried: tensors have shapes and no values. What a kernel refuses by values or by its
    own look at sizes shows only where it is run, by `watch`.

    Raises:
        InputError: the call is no function, or looks at values, which it would have to be run for.

    Example:
        >>> import torch
        >>> from kernelwright import ops
        >>> x = torch.randn(100, 8)
        >>> [(one.op, one.serves) for one in explain(lambda: ops.kmeans.assign(x, x[:4]))]
        [('kmeans_assign', 'kernel')]
    """
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
    )

    _callable("explain", call)
    found: list[Explanation] = []
    plans.append(found)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            call()
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        seen = ", ".join(one.op for one in found) or "any op"
        raise InputError(
            f"explain: the call looks at values of tensors after {seen} ({error}), which nothing has computed; "
            "`watch` runs it"
        ) from error
    finally:
        plans[:] = [one for one in plans if one is not found]
    return found


def watch(call: Callable[[], object]) -> list[Explanation]:
    """Run a call and return which ops it ran, by what, why, and how long each took.

    Raises:
        InputError: the call is no function.

    Example:
        >>> import torch
        >>> from kernelwright import ops
        >>> x = torch.randn(100, 8)
        >>> [(one.op, one.serves) for one in watch(lambda: ops.kmeans.assign(x, x[:4]))]
        [('kmeans_assign', 'kernel')]
    """
    _callable("watch", call)
    heard: list[Explanation] = []
    listeners.append(heard)
    try:
        call()
    finally:
        listeners[:] = [one for one in listeners if one is not heard]
    return heard


def _callable(name: str, call: object) -> None:
    if not callable(call):
        raise InputError(
            f"{name}: call is a {type(call).__name__}; expected a function without arguments, such as "
            "`lambda: ops.norms.rms_norm(x)`: what it returns is computed already where it is passed itself"
        )
