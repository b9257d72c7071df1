"""Model, minutes → ModelResult: plan, search the regions, judge the patched model as a whole."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..devices import Device
from ..errors import InputError, KernelwrightError, fault_of
from ..flow import optimize as search_op
from ..records import Budget, DecisionStatus, Numerics, Task, content_key
from ..search import Event, Judgement, OnEvent, accepted_of
from ..store import Store
from ..system.deadline import deadline
from ._assemble import Accepted
from ._budget import Stream, kept_of, next_of
from ._device import device_of_models
from ._dynamo_form import dynamo_form
from ._identity import Outside, identity_of
from ._judged import Judged
from ._look import LEAST_SHARE
from ._metadata import keep_metadata
from ._minutes import SHORTEST_S, budget_of, verdict_s
from ._over_eager import over_eager, ratio_to_eager
from ._pilot import forecast_of
from ._plan import Planned, overlaps_of, planned, streams_of
from ._records import MODEL_PLAN, MODEL_RESULT, SIZED_RESULT, ModelResult, RegionOutcome, SizedResult
from ._target import Loaded, ModelTarget
from ._task import region_task
from ._whole import PROPOSERS as WHOLE_PROPOSERS
from ._whole import WholeFound, ends_of, finished_runs, note_search, search_whole
from .pieces import Unprintable

BASELINES = ("eager", "compile", "compile-max-autotune-freezing")
"""Native forms of a model; the fastest counts."""
PROPOSERS = ("library", "schedule")
"""Who proposes kernels for regions. Inductor's own code for a region is what the model is compared with anyway."""
_LATE = "time was up before a program for the whole model was decided; allow more --minutes"
_MARGIN_S = 60.0
"""Seconds after the minutes at which everything is cut off: what is in progress may end in them."""


def optimize_model(
    target: ModelTarget | Loaded,
    *,
    inputs: object = None,
    minutes: float = 10.0,
    device: str | None = None,
    baselines: Sequence[str] = BASELINES,
    proposers: Sequence[str] = PROPOSERS,
    languages: Sequence[str] = (),
    numerics: Numerics | None = None,
    store: Path | str | None = None,
    on_event: OnEvent | None = None,
    search: Callable[..., Any] = search_op,
) -> ModelResult:
    """Make a whole model faster: search its regions, patch what was accepted, and judge the model end to end.

    A model that was interrupted goes on where it stopped if it is optimised again in the same store: finished runs of
    regions are taken over. The failure of a region never ends the run.

    Args:
        target: The model.
        inputs: Inputs of one call, for a module that is passed as it is.
        minutes: Wall minutes for all of it; up to two fifths, at most five minutes, are kept for the verdict on the
            whole. A minute later everything is cut off, and what is not decided by then stays native.
        device: `cpu`, the default, or `cuda`, `cuda:N`.
        baselines: Native forms of the model to beat; the fastest counts.
        proposers: Who proposes kernels for regions.
        languages: Languages of kernels; by default all that are available.
        numerics: How far kernels, and the model with them, may be off: `strict`, `native` or `fast`.
        store: Folder of the run store; by default the user's.
        on_event: Called with each event as it happens.
        search: Searches one region; for tests.

    Returns:
        The verdict on the whole model, and what came of each region.

    Raises:
        TaskError: the target is no model, or does not run on its inputs.
        InputError: time was up before the model was planned.
    """
    begun = time.monotonic()
    used, end = device_of_models(device), begun + minutes * 60

    def say(event: str, **data: Any) -> None:
        if on_event is not None:
            on_event(Event(event=event, run="", elapsed_s=time.monotonic() - begun, data=data))

    options = {
        "device": device or "cpu", "proposers": tuple(proposers), "languages": tuple(languages), "store": store,
        "on_event": on_event,
    }  # fmt: skip
    found: list[Planned] = []
    try:
        with deadline(minutes * 60 + _MARGIN_S):
            found.append(planned(target, device=used, inputs=inputs, minutes=minutes, numerics=numerics))
            say("plan", message=_told(found[0]))
            for note in found[0].plan.notes:
                say("plan", message=note)
            result, task = _Run(found[0], used, tuple(baselines), options, say, begun, end).result(search)
            return _kept(result, found[0], store, task)
    except TimeoutError:
        spent = f"time was up after {time.monotonic() - begun:.0f} s"
        if not found:
            raise InputError(f"{spent}, before the model was planned; allow more --minutes") from None
        return _result(
            found[0], used, None, (), f"{spent}, before it was decided; allow more --minutes", begun
        )


def model_result(run: str, store: Path | str | None = None) -> ModelResult:
    """Return the result of a model by the run in which it was judged, or its beginning; `last` is the newest.

    Raises:
        InputError: no model was judged in that run.
    """
    with Store(store) as kept:
        found = [ModelResult.from_json(text) for text in kept.kept(MODEL_RESULT)]
    known = [r for r in found if r.run and (run == "last" or r.run.startswith(run))]
    if not known:
        raise InputError(f"no model was judged in run {run!r}; `kernelwright optimize MODEL` makes one")
    return known[-1]


def sized_result(run: str, store: Path | str | None = None) -> SizedResult | None:
    """Return the result at several sizes that a model's run belongs to, if it has one; `last` is the newest run."""
    with Store(store) as kept:
        known = [SizedResult.from_json(text) for text in kept.kept(SIZED_RESULT)]
    if not known:
        return None
    wanted = model_result(run, store).run
    return next((r for r in reversed(known) if wanted in {one.result.run for one in r.outcomes}), None)


@dataclass(frozen=True)
class _Run:
    """One model while it is optimised."""

    plan: Planned
    used: Device
    baselines: tuple[str, ...]
    options: dict[str, Any]
    say: Callable[..., None]
    begun: float
    end: float

    def result(self, search: Callable[..., Any]) -> tuple[ModelResult, Task | None]:
        """Search the whole model as one program, else its regions; the task is the one that a program was judged on."""
        plan, alone = self.plan, WholeFound()
        whole = plan.plan.whole
        if set(WHOLE_PROPOSERS) <= set(self.options["proposers"]) and whole is not None and whole.chosen:
            more = {**self.options, "proposers": WHOLE_PROPOSERS, "baselines": self.baselines}
            alone = search_whole(plan, _key(plan), search, self._left_s(), more, self.say)
            if alone.best is not None:
                return self._of_whole(alone), alone.task
        tried = (alone.outcome(plan),) if alone.run or alone.reason else ()
        if plan.captured.whole is None and self.used.kind != "cpu":
            broken = f"the model's graph breaks ({plan.captured.breaks[0]}); kernels serve its pieces on CPUs alone"
            return self._native(tried, broken, alone), None
        all_s, regions = self._left_s(), _Regions(plan, self.options["store"], self.say)
        regions.take_over(self.options)

        def left_to_search_s() -> float:
            return self._left_s() - verdict_s(all_s, regions.accepted_s)

        while (stream := regions.next(left_to_search_s())) is not None:
            left_s = left_to_search_s()
            budget = budget_of(min(max(stream.cost_s, 2 * SHORTEST_S), left_s), left_s)
            regions.search(stream, search, budget, self.options)
        accepted = regions.accepted()
        if not accepted:
            return self._without_kernels(tried, regions.outcomes(()), alone), None
        result, task = self._judged(regions, accepted, tried)
        return result.model_copy(update={"pilot": alone.pilot}), task

    def _judged(
        self, regions: "_Regions", accepted: Sequence[Accepted], tried: tuple[RegionOutcome, ...]
    ) -> tuple[ModelResult, Task | None]:
        """Judge the model with the kernels of its regions, in the time that is left."""
        store, verdict = self.options["store"], Judged(self.plan, accepted, self.say)
        judgement = verdict.judge(
            self.baselines, self.options["device"], store, self.options["on_event"], self._left_s()
        )
        outcomes = (*tried, *regions.outcomes(verdict.kept, verdict.out))
        result = _result(self.plan, self.used, judgement, outcomes, verdict.reason, self.begun)
        more = {
            "weights": verdict.weights, "call": self.plan.loaded.whole.call,
            "pieces": self.plan.captured.whole is None,
            "eager_speedup": over_eager(store, judgement.run, judgement.candidate) if judgement else None,
            "expected": _expected(self.plan, verdict.judged),
        }  # fmt: skip
        return result.model_copy(update=more), verdict.task

    def _of_whole(self, found: WholeFound) -> ModelResult:
        """Return the result where one program serves the whole model."""
        assert found.best is not None
        decision = found.best.decision
        plan = self.plan
        return ModelResult(
            model=plan.plan.model, device=self.used.fingerprint, run=found.run, decision=decision.status,
            speedup=decision.speedup, baseline=decision.baseline, eager_speedup=ratio_to_eager(found.best),
            expected=self._expected_of_whole(found), pilot=found.pilot,
            regions=(found.outcome(plan),), weights=found.weights, call=plan.loaded.whole.call,
            numerics=plan.loaded.numerics, seconds=time.monotonic() - self.begun,
        )  # fmt: skip

    def _left_s(self) -> float:
        return self.end - time.monotonic()

    def _expected_of_whole(self, found: WholeFound) -> tuple[float, float, float]:
        return self.plan.plan.expected_of_whole if found.pilot is None else forecast_of(found.pilot)

    def _without_kernels(
        self, tried: tuple[RegionOutcome, ...], regions: tuple[RegionOutcome, ...], whole: WholeFound
    ) -> ModelResult:
        """Return the result where no region has a kernel; the whole's forecast where nothing else was tried."""
        if regions or not whole.late:
            return self._native((*tried, *regions), "no region has an accepted kernel", whole)
        found = self._native(tried, _LATE, whole)
        return found.model_copy(update={"expected": self._expected_of_whole(whole)})

    def _native(self, outcomes: tuple[RegionOutcome, ...], reason: str, whole: WholeFound) -> ModelResult:
        found = _result(self.plan, self.used, None, outcomes, reason, self.begun)
        return found.model_copy(update={"pilot": whole.pilot})


class _Regions:
    """The regions of a plan while they are searched."""

    def __init__(self, plan: Planned, store: Path | str | None, say: Callable[..., None]) -> None:
        self._plan, self._store, self._say = plan, store, say
        self._rows = {row.region: row for row in plan.plan.regions}
        self._streams = {stream.key: stream for stream in streams_of(plan.plan.regions)}
        self._overlaps = overlaps_of(plan.regions)
        self._accepted: dict[str, Accepted] = {}
        self._ends: dict[str, str] = {}
        self._key = _key(plan)
        self.accepted_s = 0.0
        """The longest that accepting a kernel took."""

    def take_over(self, options: dict[str, Any]) -> None:
        """Take over the finished runs of an earlier, interrupted attempt that asked for the same."""
        with Store(self._store) as store:
            known = finished_runs(store, self._key, self._plan.plan.device, options)
            for key, run in ((k, run) for k in self._streams for run in known.get(k, ())):
                self._note(self._streams[key], run, store)
                self._say("region", message=f"{self._rows[key].label}: run {run} taken over")

    def next(self, left_s: float) -> Stream | None:
        """Return the region to search next; None where none is worth it or time is up."""
        if left_s < SHORTEST_S:
            return None
        least_us = LEAST_SHARE * self._plan.plan.time_us
        return next_of(self._streams.values(), left_s, self._overlaps, least_us)

    def search(
        self, stream: Stream, search: Callable[..., Any], budget: Budget, options: dict[str, Any]
    ) -> None:
        """Search one region; whatever goes wrong is noted, and the others go on."""
        row, (capture, region) = self._rows[stream.key], self._plan.regions[stream.key]
        stream.searches += 1
        self._say(
            "region",
            message=f"{row.label} x{row.uses}: searching for {60 * (budget.search_minutes or 0):.0f} s",
        )
        try:
            task = self._plan.loaded.judged(region_task(capture, region, self._plan.timed[capture.name]))
            with Store(self._store) as store:
                note_search(store, self._key, stream.key, task)
            found = search(task, budget=budget, **options)
        except (KernelwrightError, Unprintable) as error:
            stream.failed = str(error)
        except Exception as error:  # noqa: BLE001  a region's failure never ends the model's run
            stream.failed = fault_of(error)
        else:
            with Store(self._store) as store:
                self._note(stream, found.run, store)
        if stream.failed:
            self._say("region", message=f"{row.label}: stays native: {stream.failed}")

    def _note(self, stream: Stream, run: str, store: Store) -> None:
        """Note what a finished run of a region brought."""
        if run in stream.runs:
            return
        stream.searches = max(stream.searches, len(stream.runs) + 1)
        stream.runs.append(run)
        record = store.run(run)
        best = next(iter(accepted_of(store, record)), None)
        if best is None:
            self._ends[stream.key] = ends_of(store.evaluations(run))
        else:
            self.accepted_s = max(self.accepted_s, best.time_s)
        if (
            best is not None
            and best.decision.speedup is not None
            and best.decision.speedup.median > stream.speedup
        ):
            stream.speedup = best.decision.speedup.median
            region = self._plan.regions[stream.key][1]
            self._accepted[stream.key] = Accepted(region, store.task(record.task), best.candidate)

    def accepted(self) -> list[Accepted]:
        """Return accepted kernels of regions that do not overlap, those that save the most first."""
        saved = {key: self._streams[key].saved_us for key in self._accepted}
        return [self._accepted[key] for key in kept_of(saved, self._overlaps)]

    def outcomes(
        self, kept: Sequence[Accepted], out: dict[str, str] | None = None
    ) -> tuple[RegionOutcome, ...]:
        """Return what came of each region that was tried."""
        inside = {a.region.key for a in kept}
        return tuple(
            self._outcome(s, s.key in inside, out or {}) for s in self._streams.values() if s.runs or s.failed
        )

    def _outcome(self, stream: Stream, kept: bool, out: dict[str, str]) -> RegionOutcome:
        row = self._rows[stream.key]
        none = "; ".join(("no kernel was accepted", *(e for e in (self._ends.get(stream.key),) if e)))
        reason = "" if kept else out.get(stream.key) or stream.failed or none
        if not kept and stream.speedup > 1.0 and stream.key not in out:
            reason = "a larger gain overlaps with it"
        return RegionOutcome(
            region=stream.key, label=row.label, uses=row.uses, runs=tuple(stream.runs), kept=kept, reason=reason,
            speedup=stream.speedup if stream.speedup > 1.0 else None, expected_us=row.gain.expected,
        )  # fmt: skip


def _result(
    plan: Planned, device: Device, judgement: Judgement | None, outcomes: tuple[RegionOutcome, ...], reason: str,
    begun: float,
) -> ModelResult:  # fmt: skip
    return ModelResult(
        model=plan.plan.model, device=device.fingerprint, run=judgement.run if judgement else "",
        decision=judgement.decision if judgement else DecisionStatus.INCONCLUSIVE,
        speedup=judgement.speedup if judgement else None, baseline=(judgement.baseline or "") if judgement else "",
        eager_speedup=None, expected=plan.plan.expected, regions=outcomes, reason=reason,
        numerics=plan.loaded.numerics, seconds=time.monotonic() - begun,
    )  # fmt: skip


def _kept(result: ModelResult, plan: Planned, store: Path | str | None, task: Task | None) -> ModelResult:
    """Keep the result in the store, with what tells the model from others if it may be installed; return it."""
    if result.improved and task is not None:
        identity = identity_of(plan.loaded, plan.captured.whole, task)
        same = Outside(plan.loaded.module, identity.tensors).changed() is None
        served = same and plan.place == "cpu"  # on a GPU, torch.compile leaves the model to Inductor
        dynamo = dynamo_form(plan.loaded, result.weights) if served else None
        result = result.model_copy(update={"identity": identity, "dynamo": dynamo})
    with Store(store) as kept:
        kept.keep(MODEL_RESULT, result.origin, {result.origin: result.to_json()})
        keep_metadata(kept, MODEL_PLAN, result.origin, plan.plan)
    return result


def _key(plan: Planned) -> str:
    """Name a model on a device in the store, by all that is computed in it."""
    numerics = plan.loaded.numerics or ""
    return content_key(
        plan.plan.model, plan.plan.device, numerics, *sorted(row.region for row in plan.plan.regions)
    )


def _expected(plan: Planned, kept: Sequence[Accepted]) -> tuple[float, float, float]:
    """Return what the plan expects over eager torch of the kernels that were kept."""
    rows = [row.gain for row in plan.plan.regions if row.region in {a.region.key for a in kept}]
    whole = plan.plan.time_us
    low, middle, high = (
        whole / (whole - sum(getattr(g, n) for g in rows)) for n in ("low", "expected", "high")
    )
    return low, middle, high


def _told(plan: Planned) -> str:
    low, expected, high = plan.plan.expected
    _, whole, _ = plan.plan.expected_of_whole
    return f"as one program {whole:.2f} times as fast as eager is expected; by its regions: " + (
        f"{len(plan.plan.chosen)} of {len(plan.plan.regions)} regions chosen; expected is {expected:.2f} "
        f"times as fast as eager ({low:.2f} to {high:.2f}), at most {plan.plan.ceiling:.2f} times"
    )
