"""Captured, Timed → Plan: which regions are worth trying, what each may gain, and what it costs to find out."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from ..bound import Rates, bound, rates_of
from ..devices import Device, Peaks, peaks_of
from ..errors import InputError, TaskError
from ..records import Bound, Numerics, Record
from ..tasks import Problem, one_thread
from ._capture import Capture, Captured, capture_model
from ._choose import choose
from ._device import device_of_models
from ._native import native_us
from ._parts import TimedPart, timed_parts
from ._print import Unprintable
from ._regions import PRODUCTS, Region, operator_name, regions_of
from ._target import Loaded, ModelTarget, load_model, unchanged
from ._task import region_sketch
from ._timing import Timed, timed
from ._whole_task import whole_task

_LOOK_S, _MOST_LOOKED = 20.0, 24
"""Processor seconds for tasks and bounds of regions, and how many regions are looked at."""
_LOOK_NODES = 8
"""To look at a region takes as long as so many nodes, and its nodes."""
_LEAST_SHARE = 0.005
"""Regions below this share of the time are left out."""
_CLOSED = {"product": (0.0, 0.03, 0.2), "other": (0.2, 0.55, 0.85)}
"""Share of the gap between time and bound that a search closes: low, expected, high. For `other` operators (norms,
softmax, elementwise) it is what `benchmarks.library` and `benchmarks.schedule` found in single ops; products run in a
vendor's library, which is seldom beaten."""
WHOLE = "whole"
"""What stands for the whole model among its regions."""
WHOLE_CLOSED = (0.45, 0.77, 0.92)
"""Share of the gap between a model's time and its bound that one program for all of it closes, what torch computes all
the same apart: tenth, median and ninetieth of 26 models of `benchmarks.zoo`."""
_MOST_PRODUCTS = 2
"""With more products than this in a region, half as much is expected: there is more to get right at once."""
_BUSY = 0.7
"""Runnable processes per core above which a machine is busy."""
_WHOLE_S = 150.0
"""Seconds to search and accept a program for a whole model."""
_SET_UP_S, _CALLS = 40.0, 4_000
"""Seconds that a search takes before and besides its timed calls, and how many calls of the region it makes."""


class Gain(Record):
    """Microseconds of one call of the model that a change may save."""

    low: float
    """Below this in one of ten cases."""
    expected: float
    """The expected value."""
    high: float
    """Above this in one of ten cases."""


class PlannedRegion(Record):
    """One region of a model, with what may be expected from changing it."""

    region: str
    """Hash of its computation."""
    piece: str
    """The graph that it is in."""
    kind: str
    """`op`, `fused`, `block`, `chain` or `model`."""
    label: str
    """What its first use is called."""
    uses: int
    """How often it occurs in one call, on other weights."""
    time_us: float
    """Microseconds of all uses in one call, in eager torch inside the model."""
    share: float
    """Part of the model's time."""
    bound_us: float
    """The least that all uses could take on this device."""
    limit: str
    """What limits it."""
    gain: Gain
    """What changing it may save."""
    cost_s: float
    """Seconds to search and accept a kernel."""
    chosen: bool
    """Whether it is in the set to try."""


class Plan(Record):
    """What is worth changing in a model, before anything is spent."""

    model: str
    """The model's name."""
    device: str
    """Fingerprint of the device."""
    time_us: float
    """Median microseconds of one call in eager torch."""
    operators_us: float
    """Microseconds of its operators; the rest is Python between them."""
    regions: tuple[PlannedRegion, ...]
    """From the largest expected gain to the least."""
    breaks: tuple[str, ...]
    """Where the graph ends before the model does, and why."""
    native: tuple[str, ...]
    """Parts that stay native, each with the reason."""
    notes: tuple[str, ...]
    """What else its owner should know."""
    seconds: float
    """Seconds that planning took."""
    whole: PlannedRegion | None = None
    """The whole model as one program, which is tried before its regions; none where that cannot be."""
    parts: tuple[TimedPart, ...] = ()
    """Where the time goes, by module and operator."""

    @property
    def chosen(self) -> tuple[PlannedRegion, ...]:
        """The regions to try."""
        return tuple(r for r in self.regions if r.chosen)

    @property
    def ceiling(self) -> float:
        """Speedup of the model if the chosen regions took no time at all (Amdahl's law)."""
        return self.time_us / max(self.time_us - sum(r.time_us for r in self.chosen), 1e-3 * self.time_us)

    @property
    def expected(self) -> tuple[float, float, float]:
        """Speedup of the model over eager torch: low, expected, high."""
        gains = [(r.gain.low, r.gain.expected, r.gain.high) for r in self.chosen]
        low, expected, high = (self.time_us / (self.time_us - sum(column)) for column in zip(*gains, strict=True)) \
            if gains else (1.0, 1.0, 1.0)  # fmt: skip
        return low, expected, high

    @property
    def expected_of_whole(self) -> tuple[float, float, float]:
        """Speedup of one program for the whole model over eager torch: low, expected, high; 1 where none is tried."""
        gain = self.whole.gain if self.whole else Gain(low=0.0, expected=0.0, high=0.0)
        low, expected, high = (
            self.time_us / (self.time_us - g) for g in (gain.low, gain.expected, gain.high)
        )
        return low, expected, high


@dataclass(frozen=True)
class Planned:
    """A plan with the live objects that it is about."""

    plan: Plan
    """The plan."""
    loaded: Loaded
    """The model."""
    captured: Captured
    """Its graphs."""
    regions: dict[str, tuple[Capture, Region]]
    """Region → where it is."""
    timed: dict[str, Timed]
    """Graph → its times."""


def plan(
    target: ModelTarget | Loaded, *, inputs: object = None, device: str | None = None, minutes: float = 10.0
) -> Plan:
    """Find where a model spends its time and which regions are worth changing; nothing is searched yet.

    Args:
        target: The model.
        inputs: Inputs of one call, for a module that is passed as it is.
        device: `cpu`, the default and so far the only one.
        minutes: The budget that the set of regions is chosen for.

    Raises:
        TaskError: the target is no model, or it does not run on its own inputs.
    """
    return planned(target, inputs=inputs, device=device_of_models(device), minutes=minutes).plan


def planned(
    target: ModelTarget | Loaded, *, device: Device, inputs: object = None, minutes: float = 10.0,
    numerics: Numerics | None = None,
) -> Planned:  # fmt: skip
    """Plan, and keep the model, its graphs and its regions."""
    begun = time.monotonic()
    loaded = target if isinstance(target, Loaded) else load_model(target, inputs)
    loaded = replace(loaded, numerics=numerics)
    _check_runs(loaded)
    captured = capture_model(loaded)
    peaks, rates = peaks_of(device), rates_of(device)
    found, native, times = list[PlannedRegion](), list[str](), dict[str, Timed]()
    regions: dict[str, tuple[Capture, Region]] = {}
    end = time.process_time() + _LOOK_S
    whole = loaded.whole
    with _steady(device) as (clock, notes):
        for piece in captured.pieces:
            times[piece.name] = timed(piece, whole, wait=_wait(device), clock=clock)
    for piece in captured.pieces:
        in_piece = regions_of(piece)
        native += in_piece.native
        look = _Look(piece, times[piece.name], device, peaks, rates)
        for region in look.worth(in_piece.regions):
            if len(found) >= _MOST_LOOKED or time.process_time() > end:
                break
            try:
                one = look.at(region)
            except (Unprintable, TaskError, InputError) as error:
                native.append(f"{region.label}: {error}")
                continue
            found.append(one)
            regions[region.key] = (piece, region)
    whole_row, unfit = _whole_row(loaded, captured, times, device, peaks, rates)
    native += unfit
    picked = choose([_Option(r, *regions[r.region]) for r in found], minutes * 60)
    rows = [r.model_copy(update={"chosen": r.region in picked}) for r in found]
    whole_us = next((t.whole_us for t in times.values()), 0.0)
    made = Plan(
        model=loaded.name, device=device.fingerprint, time_us=whole_us,
        operators_us=sum(t.total_us for t in times.values()),
        regions=tuple(sorted(rows, key=lambda r: -r.gain.expected)), breaks=captured.breaks,
        native=tuple(dict.fromkeys(native)), notes=(*loaded.notes, *notes), seconds=time.monotonic() - begun,
        whole=whole_row, parts=timed_parts(captured, times),
    )  # fmt: skip
    return Planned(made, loaded, captured, regions, times)


def _whole_row(
    loaded: Loaded, captured: Captured, times: dict[str, Timed], device: Device, peaks: Peaks, rates: Rates
) -> tuple[PlannedRegion | None, list[str]]:
    """Return what may be expected of one program for the whole model, or why it cannot be one task."""
    if device.kind != "cpu" or not times:
        return None, []
    try:
        task = whole_task(loaded, captured, times).task
        found = bound(Problem(task), task.workloads[0], device, peaks, rates)
    except Exception as error:  # noqa: BLE001  the model's own code runs here, under torch's transforms
        return None, [
            f"the model as one program: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        ]
    time_us = next(iter(times.values())).whole_us
    gap_us = max(time_us - found.attainable_us - native_us(captured, times), 0.0)
    low, expected, high = (share * gap_us for share in WHOLE_CLOSED)
    row = PlannedRegion(
        region=WHOLE, piece="", kind="model", label="the whole model", uses=1, time_us=time_us, share=1.0,
        bound_us=found.attainable_us, limit=found.limit, gain=Gain(low=low, expected=expected, high=high),
        cost_s=_WHOLE_S, chosen=True,
    )  # fmt: skip
    return row, []


@dataclass(frozen=True)
class _Option:
    """A region as the choice sees it."""

    row: PlannedRegion
    capture: Capture
    region: Region

    @property
    def key(self) -> str:
        return self.row.region

    @property
    def gain(self) -> float:
        return self.row.gain.expected

    @property
    def cost(self) -> float:
        return self.row.cost_s

    def overlaps(self, other: "_Option") -> bool:
        return self.capture is other.capture and self.region.overlaps(other.region)


class _Look:
    """Looks at the regions of one graph."""

    def __init__(self, capture: Capture, times: Timed, device: Device, peaks: Peaks, rates: Rates) -> None:
        self._capture, self._times = capture, times
        self._device, self._peaks, self._rates = device, peaks, rates

    def worth(self, regions: Iterable[Region]) -> list[Region]:
        """Return the regions that take a share of the time, the most promising first."""
        least = _LEAST_SHARE * self._times.whole_us
        kept = [r for r in regions if self._time_us(r) >= least and self._is_part(r)]
        return sorted(
            kept, key=lambda r: -self._hope_us(r) / (_LOOK_NODES + r.units[0].stop - r.units[0].start)
        )

    def at(self, region: Region) -> PlannedRegion:
        """Return what may be expected of a region."""
        task = region_sketch(self._capture, region, self._times)
        workload = task.workloads[0]
        found = bound(Problem(task), workload, self._device, self._peaks, self._rates)
        uses, time_us = len(region.units), self._time_us(region)
        return PlannedRegion(
            region=region.key, piece=self._capture.name, kind=region.kind, label=region.label, uses=uses,
            time_us=time_us,
            share=min(time_us / self._times.whole_us, 1.0), bound_us=uses * found.attainable_us, limit=found.limit,
            gain=self._gain(region, found), cost_s=_SET_UP_S + _CALLS * time_us / uses / 1e6, chosen=False,
        )  # fmt: skip

    def _time_us(self, region: Region) -> float:
        return sum(self._times.region_us(self._capture, u.start, u.stop) for u in region.units)

    def _products_us(self, region: Region) -> float:
        return sum(
            self._times.nodes_us[n.name]
            for u in region.units
            for n in self._capture.nodes[u.start : u.stop]
            if operator_name(n) in PRODUCTS
        )

    def _hope_us(self, region: Region) -> float:
        """Return what could be gained without looking at the bound; long regions take long to look at."""
        products = self._products_us(region)
        return _CLOSED["other"][1] * (self._time_us(region) - products) + _CLOSED["product"][1] * products

    def _is_part(self, region: Region) -> bool:
        """Tell whether one use is clearly less than the whole graph, unless that is small."""
        unit = region.units[0]
        return len(self._capture.nodes) < 20 or unit.stop - unit.start <= 0.7 * len(self._capture.nodes)

    def _gain(self, region: Region, found: Bound) -> Gain:
        uses = len(region.units)
        products = self._products_us(region)
        rest = self._time_us(region) - products
        least = {"product": 0.0, "other": 0.0}
        for term in found.terms:
            kind = "product" if term.name.startswith("tensor-") else "other"
            least[kind] = max(least[kind], uses * term.time_us)
        gaps = {"product": max(products - least["product"], 0.0), "other": max(rest - least["other"], 0.0)}
        inside = self._capture.nodes[region.units[0].start : region.units[0].stop]
        ease = 0.5 if sum(operator_name(n) in PRODUCTS for n in inside) > _MOST_PRODUCTS else 1.0
        low, expected, high = (
            ease * sum(_CLOSED[kind][i] * gap for kind, gap in gaps.items()) for i in range(3)
        )
        return Gain(low=low, expected=expected, high=high)


def _check_runs(loaded: Loaded) -> None:
    whole = loaded.whole
    try:
        with torch.no_grad(), unchanged(whole):
            outputs = whole(*whole.tensors)
    except Exception as error:
        raise TaskError(
            f"{loaded.name} does not run on its inputs: {type(error).__name__}: {error}; check what build() returns"
        ) from error
    if not outputs:
        raise TaskError(f"{loaded.name} returns no tensors; expected a result with at least one")


@contextmanager
def _steady(device: Device) -> Iterator[tuple[Callable[[], float], list[str]]]:
    """Yield the clock to time with, and what to say about it.

    Where the processor is busy it is the processor time of one thread: a thread team that waits for a core, and wall
    time in which others run, tell nothing of the model.
    """
    if device.kind != "cpu" or os.getloadavg()[0] <= _BUSY * (os.cpu_count() or 1):
        yield time.perf_counter, []
        return
    with one_thread():
        yield time.thread_time, ["timed in processor time of one thread: other work keeps this machine busy"]


def _wait(device: Device) -> Callable[[], None]:
    return torch.cuda.synchronize if device.kind != "cpu" else lambda: None


__all__: Sequence[str] = ["Gain", "Plan", "Planned", "PlannedRegion", "plan", "planned"]
