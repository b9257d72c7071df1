"""Who sets the pace, the host or the device, and where that changes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import fdtri

from ...errors import InputError
from ...records import Record
from ._launches import Linked
from ._spans import Span


class Region(StrEnum):
    """Who sets the pace."""

    CPU_BOUND = "CPU-bound"
    """The device waits for launches."""
    GPU_BOUND = "GPU-bound"
    """Launches wait for the device."""
    NO_DEVICE = "no device"
    """Nothing ran on a device, or no launch is known."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Between two starts on a device: how long, and whether the host was what it waited for."""

    linked: Linked
    """What started."""
    period_us: float
    """Microseconds since the last start on the device, or the trace's first launch."""
    by_host: bool
    """Whether the device had nothing to do when the launch began."""


class Change(Record):
    """Where in a trace another begins to set the pace."""

    before: Region
    """Who set it until there."""
    after: Region
    """Who sets it from there on."""
    at_us: float
    """Microseconds since the first launch."""
    kernel: int
    """Number of the first kernel or copy after it, from 0."""
    operator: str
    """The operator that launched it."""


class Transition(Record):
    """Where a sweep over sizes goes from CPU-bound to GPU-bound.

    Below it TKLQT is flat, the cost of launching; above it, it grows, as launches queue.
    """

    size: float
    """The size at the knee; infinite if TKLQT stays flat, so that all is CPU-bound."""
    low: float
    """Lower 95 % limit of the knee."""
    high: float
    """Upper 95 % limit of the knee."""
    flat_us: float
    """TKLQT below the knee, microseconds."""


def paces(linked: Sequence[Linked], device: Sequence[Span]) -> list[Pace]:
    """Say for everything that ran on a device whether the host or the device set its start."""
    launched = {id(one.span): one for one in linked}
    last_start: dict[str, float] = {}
    busy_until: dict[str, float] = {}
    found = []
    for span in device:
        name, one = span.place[0], launched.get(id(span))
        if one is not None:
            begun = last_start.get(name, one.launch.start_us)
            idle = busy_until.get(name, -math.inf) <= one.launch.start_us
            found.append(Pace(one, max(span.start_us - begun, 0.0), idle))
        last_start[name] = span.start_us
        busy_until[name] = max(busy_until.get(name, -math.inf), span.end_us)
    return found


def host_share(found: Sequence[Pace]) -> float:
    """Return the share of time, 0 to 1, in which the host set the pace; nan where nothing is known."""
    total = math.fsum(p.period_us for p in found)
    return math.fsum(p.period_us for p in found if p.by_host) / total if total else math.nan


def region_of(share: float) -> Region:
    """Return who sets the pace most of the time."""
    if math.isnan(share):
        return Region.NO_DEVICE
    return Region.CPU_BOUND if share > 0.5 else Region.GPU_BOUND


def change_of(found: Sequence[Pace]) -> Change | None:
    """Return from which kernel on another sets the pace of most; None where one rate explains all.

    The likeliest single change of a Bernoulli series, kept if it beats none by BIC (two more parameters) and if
    the sides differ in region.
    """
    hosts = np.array([p.by_host for p in found], dtype=float)
    n = len(hosts)
    if n < 4:
        return None
    ahead = np.cumsum(hosts)
    at = np.arange(2, n - 1)
    gain = _likelihood(ahead[at - 1], at) + _likelihood(ahead[-1] - ahead[at - 1], n - at)
    best = int(at[int(np.argmax(gain))])
    if 2 * (gain.max() - _likelihood(ahead[-1:], np.array([n]))[0]) <= 2 * math.log(n):
        return None
    before, after = (region_of(float(side.mean())) for side in (hosts[:best], hosts[best:]))
    if before is after:
        return None
    first, there = found[0].linked.launch, found[best].linked
    return Change(
        before=before, after=after, at_us=there.span.start_us - first.start_us, kernel=best,
        operator=there.operator.name if there.operator else "",
    )  # fmt: skip


def _likelihood(ones: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Return the log likelihood of a number of ones at their own rate."""
    rate = np.clip(ones / of, 1e-12, 1 - 1e-12)
    value: np.ndarray = ones * np.log(rate) + (of - ones) * np.log1p(-rate)
    return value


def transition(sizes: Sequence[float], tklqt_us: Sequence[float]) -> Transition:
    """Find the knee of a sweep: the logarithm of TKLQT is flat, then a straight line in the logarithm of the size.

    Args:
        sizes: Sizes of the sweep, such as batch sizes, rising, at least 4.
        tklqt_us: TKLQT of each, microseconds.

    Returns:
        The knee with 95 % limits (profile likelihood); an infinite one where a rise is not significant at 5 %.

    Raises:
        InputError: fewer than 4 sizes, sizes that do not rise, or figures that are not above zero.

    Example:
        >>> found = transition([1, 2, 4, 8, 16, 32, 64], [10.0, 10.1, 9.9, 10.0, 20.2, 39.8, 80.5])
        >>> round(found.size), round(found.flat_us)
        (8, 10)
    """
    x, y = np.asarray(sizes, dtype=float), np.asarray(tklqt_us, dtype=float)
    if len(x) != len(y) or len(x) < 4 or not (np.diff(x) > 0).all():
        raise InputError(
            f"a transition was asked of {len(x)} sizes and {len(y)} figures; expected as many, at least 4, rising"
        )
    if not ((x > 0).all() and np.isfinite(y).all() and (y > 0).all()):
        raise InputError(f"TKLQT is {list(tklqt_us)} at {list(sizes)}; expected numbers above zero")
    x, y = np.log(x), np.log(y)
    knees = np.linspace(x[0], x[-2], 400)
    fits = [_fit(x, y, knee) for knee in knees]
    errors = np.array([error for error, _, _ in fits])
    best = int(np.argmin(errors))
    flat = float(((y - y.mean()) ** 2).sum())
    free = len(x) - 3
    least = max(float(errors[best]), 1e-12)
    significant = (flat - least) / 2 / (least / free) > fdtri(2, free, 0.95)
    if not significant or fits[best][2] <= 0:
        return Transition(
            size=math.inf, low=math.exp(x[-1]), high=math.inf, flat_us=math.exp(float(y.mean()))
        )
    inside = knees[errors <= least * (1 + fdtri(1, free, 0.95) / free)]
    return Transition(
        size=math.exp(knees[best]), low=math.exp(inside.min()), high=math.exp(inside.max()),
        flat_us=math.exp(fits[best][1]),
    )  # fmt: skip


def _fit(x: np.ndarray, y: np.ndarray, knee: float) -> tuple[float, float, float]:
    """Return squared error, level and slope of the flat line that rises from a knee on."""
    columns = np.stack([np.ones_like(x), np.maximum(x - knee, 0.0)], axis=1)
    found = np.linalg.lstsq(columns, y, rcond=None)[0]
    return float(((columns @ found - y) ** 2).sum()), float(found[0]), float(found[1])
