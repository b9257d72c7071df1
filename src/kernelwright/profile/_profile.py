"""Time the whole reference, and break it down by operator and by submodule."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from ..devices import Device
from ..errors import InputError
from ..records import Record, Workload
from ..tasks import Problem
from ._operators import operator_times
from ._submodules import submodule_times

_SEED = 0
_MOST_CALLS = 200
_ROUNDS = 5
"""Calls used for the shares, as far as time permits."""


class Share(Record):
    """The time of one part of the reference in one run."""

    name: str
    """Name of the part."""
    calls: float
    """Calls in one run."""
    time_us: float
    """Microseconds in one run."""
    share: float
    """Part of the whole's time, from 0 to 1."""

    @property
    def most_speedup(self) -> float:
        """Speedup of the whole if this took no time at all (Amdahl's law)."""
        return 1.0 / max(1.0 - self.share, 1e-3)


class OpShare(Share):
    """One operator's self time, including the timer's overhead and calls by other operators; shares add up to 1.

    It is named as in torch, such as `aten::mul`.
    """


class SubmoduleShare(Share):
    """One submodule's time, everything inside it included; the shares of nested ones overlap.

    It is named by its path in the module, such as `layers.0.norm`.
    """

    kind: str
    """Its class."""


class Profile(Record):
    """Where eager torch spends its time on one workload.

    Covers: wall time without any tool; self time of operators, one at a time; submodules.
    Does not cover: why an operator is slow (see the bound for how fast it could be); overlap of operators on
    a GPU; shares of operators below some ten microseconds, which the timer's overhead inflates.
    """

    task: str
    """The task's name."""
    workload: str
    """The workload's name."""
    device: str
    """Fingerprint of the device."""
    time_us: float
    """Median microseconds of a call, without timing its operators."""
    calls: int
    """Calls behind the median."""
    operators: tuple[OpShare, ...]
    """From the largest share to the least."""
    submodules: tuple[SubmoduleShare, ...] = ()
    """From the largest share to the least; empty for a function or a module without children."""


def profile(problem: Problem, workload: Workload, device: Device, *, seconds: float = 0.5) -> Profile:
    """Profile the reference on one workload.

    Args:
        problem: the loaded task.
        workload: what to run.
        device: where to run it.
        seconds: about how long to time for; the profiled calls come on top, once as long each. A call that takes
            longer by itself is made four times: to warm up, for its time, its operators and its submodules.

    Raises:
        InputError: torch cannot reach the device.
    """
    workload = workload.forward
    inputs, state = problem.inputs(workload, _SEED), problem.state(workload, _SEED)
    reference = problem.reference(workload, state)
    try:
        if isinstance(reference, torch.nn.Module):
            reference.to(device.torch_device)
        inputs = [v.to(device.torch_device) if isinstance(v, torch.Tensor) else v for v in inputs]
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"torch cannot use device {device.torch_device!r}: {error}") from error
    wait = torch.cuda.synchronize if device.kind != "cpu" else _nothing

    def call() -> None:
        reference(*inputs)
        wait()

    with torch.no_grad(), torch.random.fork_rng():
        time_us, calls = _median(call, seconds)
        rounds = max(1, min(_ROUNDS, int(seconds * 1e6 / time_us)))
        operators = _operators(call, wait, rounds)
        submodules = _submodules(reference, call, wait, rounds)
    return Profile(
        task=problem.task.name, workload=workload.name, device=device.fingerprint, time_us=time_us,
        calls=calls, operators=operators, submodules=submodules,
    )  # fmt: skip


def _median(call: Callable[[], None], seconds: float) -> tuple[float, int]:
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or (len(times) < _MOST_CALLS and time.perf_counter() < end):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times), len(times)


def _operators(call: Callable[[], None], wait: Callable[[], None], rounds: int) -> tuple[OpShare, ...]:
    found = operator_times(call, wait, rounds)
    whole = sum(t for _, _, t in found) or 1.0
    shares = [OpShare(name=n, calls=c, time_us=t, share=t / whole) for n, c, t in found]
    return tuple(sorted(shares, key=lambda o: -o.share))


def _submodules(
    reference: Callable[..., Any], call: Callable[[], None], wait: Callable[[], None], rounds: int
) -> tuple[SubmoduleShare, ...]:
    if not isinstance(reference, torch.nn.Module):
        return ()
    whole, found = submodule_times(reference, call, wait, rounds)
    shares = [
        SubmoduleShare(name=n, kind=k, calls=c, time_us=t, share=min(t / whole, 1.0)) for n, k, c, t in found
    ]
    return tuple(sorted(shares, key=lambda s: -s.share))


def _nothing() -> None:
    """Do nothing: the CPU is done when the call returns."""
