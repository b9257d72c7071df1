"""Model, minutes → ModelResult: plan, search the regions, judge the patched model as a whole."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ..api.judge import judging
from ..devices import Device, detect
from ..errors import InputError, KernelwrightError, fault_of
from ..flow import optimize as search_op
from ..records import Budget, DecisionStatus, Evaluation, content_key
from ..search import Event, Judgement, OnEvent, accepted_of
from ..store import Store
from ._assemble import Accepted, assemble
from ._budget import Stream, next_of
from ._dynamo_form import dynamo_form
from ._harm import without_harm
from ._plan import Planned, planned
from ._print import Unprintable
from ._records import MODEL_RESULT, ModelResult, RegionOutcome
from ._target import Loaded, ModelTarget
from ._task import region_task
from ._whole import PROGRESS, WholeFound, finished_runs, search_whole, share_s
from ._whole import PROPOSERS as WHOLE_PROPOSERS
from ._whole_task import WholeTask, whole_task

BASELINES = ("eager", "compile", "compile-max-autotune-freezing")
"""Native forms of a model; the fastest counts."""
PROPOSERS = ("library", "schedule")
"""Who proposes kernels for regions. Inductor's own code for a region is what the model is compared with anyway."""
_VERDICT_SHARE, _MOST_VERDICT_S = 0.4, 300.0
_SHORTEST_S = 30.0
"""Seconds below which a search is not worth starting."""
_LEAST_SHARE = 0.005
"""A region whose remaining gain is a smaller share of the model's time is not searched."""


def optimize_model(
    target: ModelTarget | Loaded,
    *,
    inputs: object = None,
    minutes: float = 10.0,
    device: str | None = None,
    baselines: Sequence[str] = BASELINES,
    proposers: Sequence[str] = PROPOSERS,
    languages: Sequence[str] = (),
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
        minutes: Wall minutes for the plan and the searches; up to two fifths, at most five minutes, are kept for the
            verdict on the whole, which is not cut off if it takes longer.
        device: `cpu`, `cuda` or `cuda:N`; by default the first GPU, else the CPU.
        baselines: Native forms of the model to beat; the fastest counts.
        proposers: Who proposes kernels for regions.
        languages: Languages of kernels; by default all that are available.
        store: Folder of the run store; by default the user's.
        on_event: Called with each event as it happens.
        search: Searches one region; for tests.

    Returns:
        The verdict on the whole model, and what came of each region.

    Raises:
        TaskError: the target is no model, or does not run on its inputs.
    """
    begun = time.monotonic()
    used = detect(device)

    def say(event: str, **data: Any) -> None:
        if on_event is not None:
            on_event(Event(event=event, run="", elapsed_s=time.monotonic() - begun, data=data))

    plan = planned(target, device=used, inputs=inputs, minutes=minutes)
    say("plan", message=_told(plan))
    end = begun + minutes * 60
    options = {
        "device": device, "proposers": tuple(proposers), "languages": tuple(languages), "store": store,
        "on_event": on_event,
    }  # fmt: skip
    alone = WholeFound()
    if set(WHOLE_PROPOSERS) <= set(proposers) and plan.plan.whole is not None:
        more = {**options, "proposers": WHOLE_PROPOSERS, "baselines": tuple(baselines)}
        key, left_s = _key(plan), end - time.monotonic()
        alone = search_whole(plan, key, search, share_s(left_s) / 60, more, say)
        if alone.best is not None:
            return _kept(_of_whole(plan, used, alone, begun), plan, store)
    if plan.captured.whole is None:
        broken = (
            f"the model's graph breaks ({plan.captured.breaks[0]}); its parts are planned, and stay native"
        )
        return _result(plan, used, None, (alone.outcome(plan),) if alone.run else (), broken, begun)
    reserve_s = min(_VERDICT_SHARE * (end - time.monotonic()), _MOST_VERDICT_S)
    regions = _Regions(plan, store, say)
    regions.take_over()
    while True:
        stream = regions.next(end - reserve_s - time.monotonic())
        if stream is None:
            break
        left_s = min(max(stream.cost_s, 2 * _SHORTEST_S), end - reserve_s - time.monotonic())
        regions.search(stream, search, Budget(minutes=left_s / 60), options)
    accepted = regions.accepted()
    tried = (alone.outcome(plan),) if alone.run or alone.reason else ()
    if not accepted:
        outcomes = (*tried, *regions.outcomes(()))
        return _result(plan, used, None, outcomes, "no region has an accepted kernel", begun)
    verdict = _Verdict(plan, accepted, say)
    judgement = verdict.judge(baselines, device, store, on_event)
    outcomes = (*tried, *regions.outcomes(verdict.kept, verdict.out))
    result = _result(plan, used, judgement, outcomes, verdict.reason, begun)
    result = result.model_copy(
        update={
            "weights": verdict.weights,
            "call": plan.loaded.whole.call,
            "eager_speedup": _over_eager(store, judgement.run, judgement.candidate) if judgement else None,
            "expected": _expected(plan, verdict.judged),
        }
    )
    return _kept(result, plan, store)


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


class _Regions:
    """The regions of a plan while they are searched."""

    def __init__(self, plan: Planned, store: Path | str | None, say: Callable[..., None]) -> None:
        self._plan, self._store, self._say = plan, store, say
        self._rows = {row.region: row for row in plan.plan.regions}
        self._streams = {
            key: Stream(key, row.gain.expected, row.time_us, row.cost_s) for key, row in self._rows.items()
        }
        self._accepted: dict[str, Accepted] = {}
        self._chosen = {row.region for row in plan.plan.chosen}
        self._key = _key(plan)

    def take_over(self) -> None:
        """Take over the finished runs of an earlier, interrupted attempt on the same model and device."""
        with Store(self._store) as store:
            known = finished_runs(self._key, store)
            for key, run in ((k, run) for k in self._streams for run in known.get(k, ())):
                self._note(self._streams[key], run, store)
                self._say("region", message=f"{self._rows[key].label}: run {run} taken over")

    def next(self, left_s: float) -> Stream | None:
        """Return the region to search next; those of the chosen set come before what overlaps with them."""
        if left_s < _SHORTEST_S:
            return None
        least = _LEAST_SHARE * self._plan.plan.time_us
        fitting = [s for s in self._streams.values()]
        chosen = [s for s in fitting if s.key in self._chosen or s.speedup > 1.0]
        return next_of(chosen, left_s, self._overlap, least) or next_of(fitting, left_s, self._overlap, least)

    def search(
        self, stream: Stream, search: Callable[..., Any], budget: Budget, options: dict[str, Any]
    ) -> None:
        """Search one region; whatever goes wrong is noted, and the others go on."""
        row, (capture, region) = self._rows[stream.key], self._plan.regions[stream.key]
        stream.searches += 1
        self._say(
            "region", message=f"{row.label} x{row.uses}: searching for {60 * (budget.minutes or 0):.0f} s"
        )
        try:
            task = region_task(capture, region, self._plan.timed[capture.name])
            found = search(task, budget=budget, **options)
        except (KernelwrightError, Unprintable) as error:
            stream.failed = str(error)
        except Exception as error:  # noqa: BLE001  a region's failure never ends the model's run
            stream.failed = fault_of(error)
        else:
            with Store(self._store) as store:
                self._note(stream, found.run, store)
                note = {"model": self._key, "region": stream.key, "run": found.run}
                store.keep(PROGRESS, found.run, {stream.key: json.dumps(note)})
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
        taken: list[Accepted] = []
        for key in sorted(self._accepted, key=lambda k: -self._streams[k].saved_us):
            one = self._accepted[key]
            if not any(one.region.overlaps(other.region) for other in taken):
                taken.append(one)
        return taken

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
        reason = "" if kept else out.get(stream.key) or stream.failed or "no kernel was accepted"
        if not kept and stream.speedup > 1.0 and stream.key not in out:
            reason = "a larger gain overlaps with it"
        return RegionOutcome(
            region=stream.key, label=row.label, uses=row.uses, runs=tuple(stream.runs), kept=kept, reason=reason,
            speedup=stream.speedup if stream.speedup > 1.0 else None, expected_us=row.gain.expected,
        )  # fmt: skip

    def _overlap(self, one: str, other: str) -> bool:
        return self._plan.regions[one][1].overlaps(self._plan.regions[other][1])


class _Verdict:
    """Judges the patched model as a whole."""

    def __init__(self, plan: Planned, accepted: Sequence[Accepted], say: Callable[..., None]) -> None:
        self._plan, self._accepted, self._say = plan, list(accepted), say
        self._capture = plan.captured.pieces[0]
        self._timed = plan.timed[self._capture.name]
        self.kept: tuple[Accepted, ...] = ()
        """The kernels in the result."""
        self.judged: tuple[Accepted, ...] = ()
        """The kernels in what was judged in full."""
        self.out: dict[str, str] = {}
        """Region → why its accepted kernel is not in the result."""
        self.reason = ""
        """Why nothing better was found."""
        self.weights: tuple[str, ...] = ()
        """The model's parameters and buffers in the order of the task's state."""

    def judge(
        self, baselines: Sequence[str], device: str | None, store: Path | str | None, on_event: OnEvent | None
    ) -> Judgement | None:
        """Find the set of kernels that work together, and put it through full acceptance."""
        try:
            whole = whole_task(self._plan.loaded, self._plan.captured, self._plan.timed)
        except (KernelwrightError, Unprintable) as error:
            self.reason = f"the model cannot be judged as a whole: {error}"
            return None
        self.weights = whole.weights
        with judging(
            whole.task, device=device, baselines=tuple(baselines), store=store, on_event=on_event
        ) as ask:
            self.kept, out = without_harm(self._accepted, lambda parts: self._score(parts, whole, ask))
            for one in out:
                self.out.setdefault(one.region.key, "the model is not faster with it")
            if not self.kept:
                self.reason = "no kernel that helps alone helps inside the model"
                return None
            self.judged = self.kept
            judgement = ask(self._assembled(self.kept, whole), False)
        if judgement.decision is not DecisionStatus.IMPROVED:
            self.reason = judgement.reason
            self.out |= {a.region.key: f"the whole is {judgement.decision}" for a in self.kept}
            self.kept = ()
        return judgement

    def _score(self, parts: tuple[Accepted, ...], whole: WholeTask, ask: Any) -> float:
        """Screen the model with some of the kernels: its speedup, 0 where it is wrong."""
        labels = ", ".join(p.region.label for p in parts)
        try:
            judgement = ask(self._assembled(parts, whole), True)
        except (InputError, Unprintable) as error:
            self._say("whole", message=f"with {labels}: {error}")
            if len(parts) == 1:
                self.out[parts[0].region.key] = str(error)
            return 0.0
        if judgement.speedup is None:
            self._say("whole", message=f"with {labels}: {judgement.decision}: {judgement.reason}")
            if len(parts) == 1:
                self.out[parts[0].region.key] = (
                    f"inside the model it is {judgement.decision}: {judgement.reason}"
                )
            return 0.0
        self._say(
            "whole", message=f"with {labels}: {judgement.speedup.median:.2f}x against {judgement.baseline}"
        )
        return float(judgement.speedup.median)

    def _assembled(self, parts: Sequence[Accepted], whole: WholeTask) -> Any:
        return assemble(self._capture, self._timed, parts, whole.state, whole.names)


def _result(
    plan: Planned, device: Device, judgement: Judgement | None, outcomes: tuple[RegionOutcome, ...], reason: str,
    begun: float,
) -> ModelResult:  # fmt: skip
    return ModelResult(
        model=plan.plan.model, device=device.fingerprint, run=judgement.run if judgement else "",
        decision=judgement.decision if judgement else DecisionStatus.INCONCLUSIVE,
        speedup=judgement.speedup if judgement else None, baseline=(judgement.baseline or "") if judgement else "",
        eager_speedup=None, expected=plan.plan.expected, regions=outcomes, reason=reason,
        seconds=time.monotonic() - begun,
    )  # fmt: skip


def _of_whole(plan: Planned, device: Device, found: WholeFound, begun: float) -> ModelResult:
    """Return the result where one program serves the whole model."""
    assert found.best is not None
    decision = found.best.decision
    return ModelResult(
        model=plan.plan.model, device=device.fingerprint, run=found.run, decision=decision.status,
        speedup=decision.speedup, baseline=decision.baseline, eager_speedup=_ratio_to_eager(found.best),
        expected=plan.plan.expected_of_whole, regions=(found.outcome(plan),), weights=found.weights,
        call=plan.loaded.whole.call, seconds=time.monotonic() - begun,
    )  # fmt: skip


def _kept(result: ModelResult, plan: Planned, store: Path | str | None) -> ModelResult:
    """Keep the result in the store, with how `torch.compile` knows the model if it may be installed; return it."""
    if result.improved:
        result = result.model_copy(update={"dynamo": dynamo_form(plan.loaded, result.weights)})
    with Store(store) as kept:
        kept.keep(MODEL_RESULT, result.run or result.model, {result.run or result.model: result.to_json()})
    return result


def _key(plan: Planned) -> str:
    """Name a model on a device in the store, by all that is computed in it."""
    return content_key(plan.plan.model, plan.plan.device, *sorted(row.region for row in plan.plan.regions))


def _expected(plan: Planned, kept: Sequence[Accepted]) -> tuple[float, float, float]:
    """Return what the plan expects over eager torch of the kernels that were kept."""
    rows = [row.gain for row in plan.plan.regions if row.region in {a.region.key for a in kept}]
    whole = plan.plan.time_us
    low, middle, high = (
        whole / (whole - sum(getattr(g, n) for g in rows)) for n in ("low", "expected", "high")
    )
    return low, middle, high


def _over_eager(store: Path | str | None, run: str, candidate: str) -> float | None:
    """Return the median ratio of eager's time to the patched model's in the blocks of a judgement."""
    with Store(store) as kept:
        found = [e for e in kept.evaluations(run) if e.candidate.key == candidate]
    return _ratio_to_eager(found[0]) if found else None


def _ratio_to_eager(found: Evaluation) -> float | None:
    blocks = found.timing.blocks if found.timing else ()
    ratios = [b.times_us["eager"] / b.times_us["candidate"] for b in blocks
              if not b.repeated and {"eager", "candidate"} <= b.times_us.keys()]  # fmt: skip
    return median(ratios) if ratios else None


def _told(plan: Planned) -> str:
    low, expected, high = plan.plan.expected
    _, whole, _ = plan.plan.expected_of_whole
    return f"as one program {whole:.2f} times as fast as eager is expected; by its regions: " + (
        f"{len(plan.plan.chosen)} of {len(plan.plan.regions)} regions chosen; expected is {expected:.2f} "
        f"times as fast as eager ({low:.2f} to {high:.2f}), at most {plan.plan.ceiling:.2f} times"
    )
