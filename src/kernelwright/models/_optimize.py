"""Model, minutes → ModelResult: plan, search the regions, judge the patched model as a whole."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..devices import Device
from ..errors import InputError
from ..flow import optimize as search_op
from ..records import DecisionStatus, Numerics, Task, content_key
from ..search import Event, Judgement, OnEvent
from ..store import Store
from ..system.deadline import deadline
from ..tasks import caveat
from ._assemble import Accepted
from ._decided import HOPELESS, chance_of, enough_s, seen_in
from ._device import device_of_models
from ._dynamo_form import dynamo_form
from ._identity import Outside, identity_of
from ._judged import Judged
from ._metadata import keep_metadata
from ._minutes import TIME_UP, again_s, verdict_s
from ._native_forms import (
    NATIVE_SHARE,
    REGION_FORMS,
    fastest_of,
    forms_in,
    held_against,
    keep_forms,
    kept_forms,
    wants_measuring,
)
from ._over_eager import over_eager, ratio_to_eager
from ._pilot import forecast_of
from ._plan import Planned, planned
from ._records import MODEL_PLAN, MODEL_RESULT, SIZED_RESULT, ModelResult, RegionOutcome, SizedResult
from ._searching import Regions, Search
from ._target import Loaded, ModelTarget
from ._whole import PROPOSERS as WHOLE_PROPOSERS
from ._whole import WholeFound, search_whole
from ._whole_judge import WholeJudge

ACCEPTED = "a faster program was accepted"
"""Why a run ended that found what it searched."""
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
    search: Search = search_op,
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
            with Store(store) as kept:
                seen = seen_in(kept, used.fingerprint)
            found.append(
                planned(target, device=used, inputs=inputs, minutes=minutes, numerics=numerics, seen=seen)
            )
            say("plan", message=_told(found[0]))
            for note in found[0].plan.notes:
                say("plan", message=note)
            result, task = _Run(found[0], used, tuple(baselines), options, say, begun, end).result(search)
            return _kept(result, found[0], store, task)
    except TimeoutError:
        spent = f"time was up after {time.monotonic() - begun:.0f} s"
        if not found:
            raise InputError(f"{spent}, before the model was planned; allow more --minutes") from None
        late = f"{spent}, before it was decided; allow more --minutes"
        return _result(found[0], used, None, (), late, begun).model_copy(update={"ended": TIME_UP})


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

    def result(self, search: Search) -> tuple[ModelResult, Task | None]:
        """Search the whole model as one program, else its regions; the task is the one that a program was judged on."""
        plan, alone = self.plan, WholeFound()
        if chance_of(self._left_s(), plan.plan.decided_s) < HOPELESS:
            found = self._native((), self._too_short(), alone)
            return found.model_copy(update={"ended": TIME_UP}), None
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
        with WholeJudge(plan, self.baselines, self.options, self.end) as judge:
            return self._by_regions(search, judge, tried, alone)

    def _by_regions(
        self, search: Search, judge: WholeJudge, tried: tuple[RegionOutcome, ...], alone: WholeFound
    ) -> tuple[ModelResult, Task | None]:
        """Search regions and judge the model with their kernels, and go on where it is not faster with them."""
        verdict, all_s, kept_s = Judged(self.plan, self.say), self._left_s(), 0.0
        regions = Regions(self.plan, _key(self.plan), self.options, self.say, search)

        def left_to_search_s() -> float:
            return self._left_s() - (kept_s or verdict_s(all_s, regions.accepted_s))

        regions.hold_against(self._held_against(judge, alone, regions, left_to_search_s()))
        while True:
            ended, accepted = regions.search(left_to_search_s), regions.accepted()
            if not regions.is_new(accepted):
                break
            began = time.monotonic()
            judgement = verdict.judge(judge, accepted)
            kept_s = again_s(time.monotonic() - began)
            if judgement is not None and judgement.decision is DecisionStatus.IMPROVED:
                ended = ACCEPTED
                break
            regions.note_judged(accepted, verdict.taken_out)
            regions.note_judged(verdict.judged, ())
            if self._left_s() <= 0:
                ended = TIME_UP
                break
            self.say("whole", message=f"{verdict.reason}; {self._left_s():.0f} s are left to go on in")
        outcomes = regions.outcomes(verdict.kept, verdict.out)
        if kept_s:
            found, task = self._of_regions(verdict, (*tried, *outcomes)), verdict.task
        else:
            found, task = self._without_kernels(tried, outcomes, alone), None
        return found.model_copy(update={"pilot": alone.pilot, "ended": ended}), task

    def _held_against(
        self, judge: WholeJudge, alone: WholeFound, regions: Regions, left_s: float
    ) -> tuple[str, ...]:
        """Return the native forms that kernels of regions must beat: the one that is the whole model's best, too.

        Where no search has timed them and no time is left to search in afterwards, it is all forms that were asked for.
        """
        place, key = self.options["store"], _key(self.plan)
        if not wants_measuring(self.baselines):
            return REGION_FORMS
        with Store(place) as store:
            known = kept_forms(store, key, self.baselines)
            forms = known or (forms_in(store, alone.run) if alone.run else {})
        fits = regions.next(left_s - NATIVE_SHARE * self.plan.plan.decided_s) is not None
        if known is None and not wants_measuring(tuple(forms)) and fits:
            forms = judge.native()
        if not wants_measuring(tuple(forms)):
            forms = {}  # none but those that regions are held against anyway: no one is known as the fastest of all
        with Store(place) as store:
            keep_forms(store, key, self.baselines, forms)
        fastest = fastest_of(forms)
        if fastest and wants_measuring((fastest,)):
            what = caveat(fastest) or "kernels of its regions must beat it, too"
            self.say("region", message=f"the model's best native form is {fastest}; {what}")
        return held_against(fastest, self.baselines)

    def _of_regions(self, verdict: Judged, outcomes: tuple[RegionOutcome, ...]) -> ModelResult:
        """Return the result of the model with the kernels of its regions, as it was judged or timed last."""
        store, best = self.options["store"], verdict.best
        result = _result(self.plan, self.used, best, outcomes, verdict.reason, self.begun)
        if result.improved and not verdict.kept:
            result = result.model_copy(update={"decision": DecisionStatus.INCONCLUSIVE})
        more = {
            "weights": verdict.weights, "call": self.plan.loaded.whole.call,
            "pieces": self.plan.captured.whole is None,
            "eager_speedup": over_eager(store, best.run, best.candidate) if best else None,
            "expected": _expected(self.plan, verdict.judged),
        }  # fmt: skip
        return result.model_copy(update=more)

    def _too_short(self) -> str:
        """Say that nothing can be decided in the minutes, and how many would do."""
        planned_s, need_s = self.plan.plan.seconds, self.plan.plan.decided_s
        enough = math.ceil((planned_s + enough_s(need_s)) / 60)
        return (
            f"{TIME_UP} before it began: planning took {planned_s:.0f} s, a decision takes about {need_s:.0f} s more "
            f"here, and {self._left_s():.0f} s are left; allow --minutes {enough}"
        )

    def _of_whole(self, found: WholeFound) -> ModelResult:
        """Return the result where one program serves the whole model."""
        assert found.best is not None
        decision = found.best.decision
        plan = self.plan
        return ModelResult(
            model=plan.plan.model, device=self.used.fingerprint, run=found.run, decision=decision.status,
            speedup=decision.speedup, baseline=decision.baseline, eager_speedup=ratio_to_eager(found.best),
            expected=self._expected_of_whole(found), pilot=found.pilot,
            regions=(found.outcome(plan),), weights=found.weights, call=plan.loaded.whole.call, ended=ACCEPTED,
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
        late = whole.late and not regions
        found = self._native((*tried, *regions), _LATE if late else "no region has an accepted kernel", whole)
        more = {"expected": self._expected_of_whole(whole)} if late else {}
        return found.model_copy(update={**whole.as_timed(), **more})

    def _native(self, outcomes: tuple[RegionOutcome, ...], reason: str, whole: WholeFound) -> ModelResult:
        found = _result(self.plan, self.used, None, outcomes, reason, self.begun)
        return found.model_copy(update={"pilot": whole.pilot})


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
