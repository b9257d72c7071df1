"""Captured, Timed → Plan: which regions are worth trying, what each may gain, and what it costs to find out."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..bound import Rates, bound, rates_of
from ..config import Settings
from ..devices import Device, Peak, Peaks, peaks_of
from ..errors import InputError, TaskError
from ..profile.trace import Chain, TraceReport, analyse, read_trace
from ..records import Numerics, Task
from ..store import DeviceLock, Store
from ..tasks import Problem, one_thread
from ..tasks.capture import trace as graph_of
from ._budget import Overlaps, Stream
from ._capture import Captured, capture_model
from ._choose import choose
from ._clock import Clock, HostClock, clock_of
from ._decided import PLANS, Seen, chance_of, factor_of, seen_in, stretch_of
from ._device import device_of_models, moved
from ._look import LEAST_SHARE, Look
from ._minutes import regions_s, whole_s
from ._native import native_us
from ._parts import timed_parts
from ._plan_records import WHOLE, Gain, Plan, PlannedRegion
from ._reach import reach_of, reached_us
from ._regions import Region, regions_of
from ._target import Loaded, ModelTarget, load_model, unchanged
from ._task import graph_sketch
from ._timing import Timed, timed
from ._traced import chains_in
from ._unusual import reads_values
from ._whole_task import WholeTask, whole_task
from .pieces import Capture, Unprintable

_LOOK_S, _MOST_LOOKED = 20.0, 24
"""Processor seconds for tasks and bounds of regions, and how many regions are looked at."""
_TIMING_S = 3.0
"""About how many seconds the calls of all graphs take that are timed."""
WHOLE_CLOSED = (0.47, 0.80, 0.96)
"""Share of the gap between a model's time and what is reached here that one program for all of it closes, what torch
computes all the same apart: tenth, median and ninetieth of 26 models of `benchmarks.zoo`, on a machine where products
reach 0.9 of their peak."""
_WHOLE_ACCEPTED = 0.95
"""Chance that a program for a whole model is accepted if there is time for it: 50 of 52 of `benchmarks.zoo`."""
_BUSY = 0.7
"""Runnable processes per core above which a machine is busy."""


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
    place: str = "cpu"
    """The device, as torch calls it."""
    whole: WholeTask | None = None
    """The model as a task, where the plan made it: its workloads are tried on the reference, which takes seconds."""

    def as_task(self) -> WholeTask:
        """Return the model as a task.

        Raises:
            TaskError: the model cannot be judged.
            InputError: it exists in memory alone, and its graph breaks.
        """
        whole = self.whole or whole_task(self.loaded, self.captured, self.timed)
        return replace(whole, task=self.loaded.judged(whole.task))


def plan(
    target: ModelTarget | Loaded, *, inputs: object = None, device: str | None = None, minutes: float = 10.0,
    trace: Path | str | None = None, store: Path | str | None = None,
) -> Plan:  # fmt: skip
    """Find where a model spends its time and which regions are worth changing; nothing is searched yet.

    Args:
        target: The model.
        inputs: Inputs of one call, for a module that is passed as it is.
        device: `cpu`, the default, or `cuda`, `cuda:N`.
        minutes: The budget that the set of regions is chosen for.
        trace: A trace of the model on a GPU that `torch.profiler` exported, `.json` or `.json.gz`: what it shows is
            part of the plan, and each region names the chains of kernels that it would fuse.
        store: Folder of the run store, whose runs tell how long decisions take here; by default the user's.

    Raises:
        TaskError: the target is no model, or it does not run on its own inputs.
        InputError: the file is no trace.
    """
    used, report = device_of_models(device), analyse(read_trace(Path(trace))) if trace is not None else None
    with Store(store) as kept:
        seen = seen_in(kept, used.fingerprint)
    return planned(target, inputs=inputs, device=used, minutes=minutes, trace=report, seen=seen).plan


def planned(
    target: ModelTarget | Loaded, *, device: Device, inputs: object = None, minutes: float = 10.0,
    numerics: Numerics | None = None, trace: TraceReport | None = None, seen: Sequence[Seen] = (),
) -> Planned:  # fmt: skip
    """Plan, and keep the model, its graphs and its regions; `seen` are earlier attempts on this device."""
    begun, computed = time.monotonic(), time.process_time()
    loaded = target if isinstance(target, Loaded) else load_model(target, inputs)
    loaded = replace(loaded, numerics=numerics)
    peaks, rates, place = peaks_of(device), rates_of(device), device.torch_device
    loaded, there = moved(loaded, "cpu"), moved(loaded, place)
    with _steady(device) as (clock, notes):
        _check_runs(there)
        captured = capture_model(loaded)
        each_s = _TIMING_S / max(len(captured.pieces), 1)
        with _alone(device):
            times = {
                piece.name: timed(piece, there.whole, seconds=each_s, clock=clock, place=place)
                for piece in captured.pieces
            }
        products = reach_of(device)
        found, regions, native = _looked(captured, times, device, peaks, rates, products)
        if trace is not None and trace.device is not None:
            found = _with_chains(found, regions, trace.device.chains)
        whole_row, whole, unfit = _whole_row(loaded, captured, times, device, peaks, rates, products)
    whole_us = next((t.whole_us for t in times.values()), 0.0)
    seconds, processor_s, factor = time.monotonic() - begun, time.process_time() - computed, factor_of(seen)
    decided_s, left_s = PLANS * seconds * factor, minutes * 60 - seconds
    found, whole_row = _stretched(
        found, whole_row, decided_s, factor * stretch_of(seconds, processor_s), left_s
    )
    chosen = _chosen(found, regions, whole_row, whole_us, left_s)
    made = Plan(
        model=loaded.name, device=device.fingerprint, time_us=whole_us,
        operators_us=sum(t.total_us for t in times.values()), breaks=captured.breaks,
        native=tuple(dict.fromkeys((*native, *unfit))), notes=(*loaded.notes, *notes),
        seconds=seconds, decided_s=decided_s, chance=chance_of(left_s, decided_s),
        parts=timed_parts(captured, times), trace=trace, **chosen,
    )  # fmt: skip
    return Planned(made, loaded, captured, regions, times, place, whole)


def streams_of(rows: Sequence[PlannedRegion]) -> list[Stream]:
    """Return planned regions as what a budget flows to."""
    return [Stream(row.region, row.gain, row.time_us, row.cost_s) for row in rows]


def overlaps_of(regions: Mapping[str, tuple[Capture, Region]]) -> Overlaps:
    """Return for each region those that share a node with it."""
    return {
        key: frozenset(
            other for other, (there, two) in regions.items()
            if other != key and here is there and one.overlaps(two)
        )
        for key, (here, one) in regions.items()
    }  # fmt: skip


def _looked(
    captured: Captured,
    times: Mapping[str, Timed],
    device: Device,
    peaks: Peaks,
    rates: Rates,
    products: Peak | None,
) -> tuple[list[PlannedRegion], dict[str, tuple[Capture, Region]], list[str]]:
    """Return the regions worth a look, where each is, and what stays native."""
    found, native = list[PlannedRegion](), list[str]()
    regions: dict[str, tuple[Capture, Region]] = {}
    end = time.process_time() + _LOOK_S
    for piece in captured.pieces:
        in_piece = regions_of(piece)
        native += in_piece.native
        look = Look(piece, times[piece.name], device, peaks, rates, products)
        for region in look.worth(in_piece.regions):
            if len(found) >= _MOST_LOOKED or time.process_time() > end:
                break
            if known := next((row for row in found if row.region == region.key), None):
                found[found.index(known)] = look.also(known, region)
                continue
            try:
                found.append(look.at(region))
            except (Unprintable, TaskError, InputError) as error:
                native.append(f"{region.label}: {error}")
                continue
            regions[region.key] = (piece, region)
    return found, regions, native


def _with_chains(
    rows: Sequence[PlannedRegion], regions: Mapping[str, tuple[Capture, Region]], chains: Sequence[Chain]
) -> list[PlannedRegion]:
    return [row.model_copy(update={"chains": chains_in(*regions[row.region], chains)}) for row in rows]


def _stretched(
    found: Sequence[PlannedRegion], whole: PlannedRegion | None, decided_s: float, times: float, left_s: float
) -> tuple[list[PlannedRegion], PlannedRegion | None]:
    """Return regions and the whole with what a search costs here and now, and the chance of a decision."""
    rows = []
    for row in found:
        cost_s = row.cost_s * times
        rows.append(row.model_copy(update={"cost_s": cost_s, "chance": chance_of(regions_s(left_s), cost_s)}))
    if whole is not None:
        whole = whole.model_copy(update={"cost_s": decided_s, "chance": chance_of(left_s, decided_s)})
    return rows, whole


def _chosen(
    found: Sequence[PlannedRegion], regions: Mapping[str, tuple[Capture, Region]], whole: PlannedRegion | None,
    whole_us: float, budget_s: float,
) -> dict[str, object]:  # fmt: skip
    """Return what is to be tried in these seconds: the whole first or regions alone, and which of them."""
    overlaps, least_us = overlaps_of(regions), LEAST_SHARE * whole_us
    alone = choose(streams_of(found), regions_s(budget_s), overlaps, least_us)
    after = alone
    if whole is not None:
        left_s = budget_s - min(whole_s(budget_s), whole.cost_s)
        after = choose(streams_of(found), regions_s(left_s), overlaps, least_us)
        accepted = _WHOLE_ACCEPTED * chance_of(budget_s, whole.cost_s)
        expected_us = accepted * whole.gain.expected + (1 - accepted) * after.gain.expected
        whole = whole.model_copy(update={"chosen": expected_us >= alone.gain.expected})
    best = after if whole is not None and whole.chosen else alone
    rows = [r.model_copy(update={"chosen": r.region in best.tried}) for r in found]
    return {
        "whole": whole, "regions": tuple(sorted(rows, key=lambda r: -r.gain.expected)), "gain": best.gain,
        "covered_us": _covered_us(rows, regions),
    }  # fmt: skip


def _covered_us(rows: Sequence[PlannedRegion], regions: Mapping[str, tuple[Capture, Region]]) -> float:
    """Return the microseconds of chosen regions, each part counted once: the larger of two that overlap."""
    kept = list[PlannedRegion]()
    for row in sorted((r for r in rows if r.chosen), key=lambda r: -r.time_us):
        capture, region = regions[row.region]
        others = (regions[k.region] for k in kept)
        if not any(capture is there and region.overlaps(other) for there, other in others):
            kept.append(row)
    return sum(row.time_us for row in kept)


def _whole_row(
    loaded: Loaded,
    captured: Captured,
    times: Mapping[str, Timed],
    device: Device,
    peaks: Peaks,
    rates: Rates,
    products: Peak | None,
) -> tuple[PlannedRegion | None, WholeTask | None, list[str]]:
    """Return what may be expected of one program for the whole model and its task, or why it cannot be one task."""
    whole = None
    if not times:
        return None, None, []
    if captured.whole is None and (reader := reads_values(loaded.whole, loaded.whole.tensors)):
        why = f"the model as one program: {reader} reads values, by which other calls run other operators"
        return None, None, [why]
    try:
        whole = whole_task(loaded, captured, times)
        problem = Problem(_bounded(whole.task, captured, times))
        workload = problem.task.workloads[0]
        graph = graph_of(problem, workload)
        found = bound(problem, workload, device, peaks, rates, graph=graph)
    except Exception as error:  # noqa: BLE001  the model's own code runs here, under torch's transforms
        why = f"the model as one program: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return None, whole, [why]
    time_us = next(iter(times.values())).whole_us
    reach_us = reached_us(found, products)
    gap_us = max(time_us - reach_us - native_us(captured, times), 0.0)
    low, expected, high = (share * gap_us for share in WHOLE_CLOSED)
    row = PlannedRegion(
        region=WHOLE, piece="", kind="model", label="the whole model", uses=1, time_us=time_us, share=1.0,
        bound_us=found.attainable_us, reach_us=reach_us, limit=found.limit,
        gain=Gain(low=low, expected=expected, high=high), cost_s=0.0, chosen=False,
    )  # fmt: skip
    return row, whole, []


def _bounded(task: Task, captured: Captured, times: Mapping[str, Timed]) -> Task:
    """Return what to bound a model by: its graph, which is known, where it has one that can be written down.

    The model itself would be exported once more wherever it does not run on fake tensors, as those of transformers.
    """
    capture = captured.whole
    if capture is None:
        return task
    try:
        return graph_sketch(capture, times[capture.name])
    except Unprintable:
        return task


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
def _steady(device: Device) -> Iterator[tuple[Clock, list[str]]]:
    """Yield the clock to time with, and what to say about it.

    Where the processor is busy it is the processor time of one thread: a thread team that waits for a core, and wall
    time in which others run, tell nothing of the model. A team also spins while it waits, which costs many times what
    the calls themselves take. A GPU has a clock of its own.
    """
    if device.kind != "cpu" or os.getloadavg()[0] <= _BUSY * (os.cpu_count() or 1):
        yield clock_of(device), []
        return
    with one_thread():
        yield (
            HostClock(time.thread_time),
            ["timed in processor time of one thread: other work keeps this machine busy"],
        )


def _alone(device: Device) -> AbstractContextManager[None]:
    """Hold a GPU while a model is timed on it, as all do who time there."""
    if device.kind == "cpu":
        return nullcontext()
    return DeviceLock(Settings.from_environment().cache / "locks", device.fingerprint).hold()


__all__: Sequence[str] = ["Gain", "Plan", "Planned", "PlannedRegion", "plan", "planned"]
