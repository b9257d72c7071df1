"""The judge of a run: verify, measure, confirm and decide, the cheapest checks first.

Covers: one set of warm baselines and expected values for a whole run; fresh seeds and fresh processes for
every acceptance; wall seconds by stage.
Does not cover: choosing what to try next.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

from ...bound import bound, rates_of
from ...config import Settings
from ...devices import Device, peaks_of
from ...errors import BusyError
from ...measure import Bench, Phase, decide, refuted_before, worth_confirming
from ...records import (
    Bound,
    Build,
    Candidate,
    DecisionStatus,
    Evaluation,
    Split,
    TensorSpec,
    Timing,
    Verdict,
    VerdictStatus,
    Workload,
)  # fmt: skip
from ...sandbox import Pool, Zygotes
from ...tasks import Problem
from ...verify import Admission, Depth, Oracle, admit, precompute, verify
from ._join import evaluation_of, joined, together, without_device
from ._modelled import Model
from ._other_sizes import Elsewhere
from ._stages import Stages

HARNESS_VERSION = 24
"""Incremented when a change of the judge makes earlier evaluations incomparable."""
BASELINES = ("eager", "compile")
"""The default baselines that a candidate must beat."""
_SCREEN_S, _VERIFY_S, _MEASURE_S, _CONFIRM_S, _SIZES_S = 20.0, 120.0, 40.0, 30.0, 40.0
_MEASURED_SHARE = 0.5
"""Part of the seconds left in which is measured: what is faster then needs as many to be confirmed."""
_NOT_VETTED = frozenset({"endurance"})
"""Checks left to the acceptance: two seconds each, whatever the candidate."""
_MOST_CONFIRM = 2
"""Confirm workloads that are timed at most; all of them are verified."""
_LEAST_SHARE = 0.5
"""A timed confirm workload has at least this share of the smallest search workload's size, because overheads
dominate small ones; if only some search workloads are requested, the largest of them is at least this share of it."""


def harness_of(baselines: Sequence[str]) -> str:
    """Name the version of the judge with its baselines."""
    return f"kernelwright-{HARNESS_VERSION}:{','.join(baselines)}"


class Acceptance:
    """The judge, opened once for a run; a context manager.

    Example:
        >>> from kernelwright.devices import detect
        >>> from kernelwright.tasks import Problem, load_task
        >>> judge = Acceptance(Problem(load_task("examples/swiglu.py")), detect("cpu"), ())
        >>> judge.harness
        'kernelwright-24:eager,compile'
    """

    def __init__(
        self,
        problem: Problem,
        device: Device,
        bounds: Sequence[Bound] | Callable[[], Sequence[Bound]],
        baselines: tuple[str, ...] = (),
        timing: Callable[[], AbstractContextManager[object]] = nullcontext,
        settings: Settings | None = None,
        languages: Sequence[str] = (),
        emit: Callable[..., None] = lambda *_, **__: None,
        zygotes: Zygotes | None = None,
    ) -> None:
        """Prepare without starting workers; they start when needed.

        Args:
            problem: The task's problem.
            device: The device that is timed.
            bounds: The least time by workload, or a function that computes it once, for the first verified candidate.
            baselines: What to beat; `eager` and `compile` by default.
            timing: Context manager entered around everything that is timed; holds the device's lock, or raises
                `BusyError` if others hold it until time is up.
            settings: Sandbox and caches; from the environment by default.
            languages: Languages of the candidates, so that their workers' zygotes start in parallel with other work.
            emit: Receives events, also before the first evaluation is done.
            zygotes: What workers are forked from, started ahead; closed with this.
        """
        self._baselines = names = baselines or BASELINES
        self.harness = harness_of(names)
        self._problem, self._timing, self._say = problem, timing, emit
        self._bounds: tuple[Bound, ...] = () if callable(bounds) else tuple(bounds)
        self._find_bounds = bounds if callable(bounds) else None
        self._device, self._settings = device, settings or Settings.from_environment()
        self._languages = tuple(languages)
        self._refuter: Workload | None = None
        """The confirm workload on which the last candidate lost its gain: the next is confirmed there first."""
        self._peaks_again = self._isolation_said = self._verified_said = False
        self._natives = [problem.baseline(name, problem.task.workloads[0]) for name in names]
        self._pool = Pool(self._settings, device=device.torch_device, zygotes=zygotes)
        self._bench = Bench(problem, self._pool, device, baselines=names)
        self._oracle = Oracle(problem)
        self._elsewhere = Elsewhere(problem, self._pool, self._bench, timing)
        self._model = Model(device, self._oracle, self._pool)
        self._admission: Admission | None = None
        self._precomputed_s, self._untimed = 0.0, without_device(device, problem.task.reference)

    def __enter__(self) -> "Acceptance":
        self._pool.prepare(languages=self._languages)
        return self

    def __exit__(self, *_: object) -> None:
        self._bench.close()
        self._pool.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on which baselines are absent, and why."""
        return tuple(f"{name} on {workload}: {why}" for (name, workload), why in self._bench.notes.items())

    @property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """Which baselines are absent, each with the workload on which it is."""
        return tuple(self._bench.notes)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The bounds that decide, once a candidate was right."""
        return self._bounds

    def precompute(self) -> None:
        """Compute the expected values of a screening's first call; its time counts towards the first verification."""
        begun = time.monotonic()
        precompute(self._oracle)
        self._precomputed_s += time.monotonic() - begun

    def screen(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Verify and time a candidate on the search workloads: enough to rank it, never enough to accept.

        The first correct one is reported before any baseline starts. It is then timed against the first baseline
        alone, and that result is reported before the others start.
        """
        stages = Stages(deadline_s)
        verdict, timing = self._verify(candidate, build, "screen", stages), None
        self._bound(candidate, verdict)
        if verdict.status is VerdictStatus.ACCEPTED:
            self._emit_verified(candidate)
            if not self._bench.ready(self._problem.task.split(Split.SEARCH)):
                timing, verdict = self._prescreen(candidate, build, verdict, stages)
            if timing is None:
                timing, verdict = self._measure(candidate, build, "screen", verdict, stages)
        times, verdict = self._model(candidate, build, verdict, stages)
        decision = decide(timing, verdict, self._bounds, self._problem.task.contract)
        return evaluation_of(candidate, build, verdict, timing, decision, "screen", stages, times)

    def vet(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Verify a candidate as for acceptance, including hidden workloads, without timing: a refusal saves more."""
        stages = Stages(deadline_s)
        verdict = self._verify(candidate, build, "full", stages, left_out=_NOT_VETTED)
        decision = decide(None, verdict, self._bounds, self._problem.task.contract)
        return evaluation_of(candidate, build, verdict, None, decision, "full", stages)

    def accept(
        self,
        candidate: Candidate,
        build: Build,
        *,
        workloads: Sequence[str] = (),
        tried: int = 1,
        deadline_s: float = math.inf,
        seeds: Sequence[int] | None = None,
    ) -> Evaluation:
        """Put a candidate through everything: hidden workloads, full timing, confirmation, decision.

        It is verified on every workload and timed on the named search workloads, or on all. If time is up
        before it could be decided, the evaluation's stage is `screen`, not `full`: more time may decide it. `seeds`
        are drawn after loading; given ones must be kept from all candidates.
        """
        stages, confirmation, timing, refuted = Stages(deadline_s), None, None, None
        self._emit_isolation()
        contract = self._problem.task.contract
        verdict = self._admitted(self._verify(candidate, build, "full", stages, seeds), stages)
        self._bound(candidate, verdict)
        if verdict.status is VerdictStatus.ACCEPTED and not stages.over:
            refuted, verdict = self._refuted(candidate, build, verdict, stages)
            timing = refuted
        if verdict.status is VerdictStatus.ACCEPTED and refuted is None and not stages.over:
            timing, verdict = self._measure(candidate, build, "measure", verdict, stages, workloads, tried)
            if worth_confirming(timing, verdict, self._bounds, contract, tried=tried) and not stages.over:
                confirmation, verdict = self._measure(candidate, build, "confirm", verdict, stages, workloads)
        times, verdict = self._model(candidate, build, verdict, stages)
        decision = decide(timing, verdict, self._bounds, contract, tried=tried, confirmation=confirmation)
        if "faster-than-physics" in decision.alarms and self._raised_bounds():
            decision = decide(timing, verdict, self._bounds, contract, tried=tried, confirmation=confirmation)
        self._refuter = self._known(decision.lost_on) or self._refuter
        open_still = decision.status in {DecisionStatus.INCONCLUSIVE, DecisionStatus.UNKNOWN}
        stage = "screen" if open_still and stages.over else "full"
        both = together(timing, confirmation)
        return evaluation_of(candidate, build, verdict, both, decision, stage, stages, times)

    def widen(self, accepted: Evaluation, *, deadline_s: float = math.inf) -> Evaluation:
        """Look at sizes around those that a candidate was accepted on; it is refused if it is wrong at one of them."""
        if accepted.decision.status is not DecisionStatus.IMPROVED or accepted.verdict is None:
            return accepted
        stages = Stages(deadline_s)
        faster = {w.workload for w in accepted.decision.workloads if w.speedup.median > 1}
        mine = [w for w in self._problem.task.split(Split.SEARCH) if w.name in faster]
        with stages("sizes"):
            sizes, wrong = self._elsewhere.open(
                accepted.candidate, accepted.build, mine, stages.within(_SIZES_S)
            )
        verdict, decision = accepted.verdict, accepted.decision
        if wrong:
            verdict = joined(verdict, wrong)
            decision = decide(accepted.timing, verdict, self._bounds, self._problem.task.contract)
        spent_s = stages.seconds["sizes"]
        return accepted.model_copy(
            update={
                "sizes": sizes, "verdict": verdict, "decision": decision, "time_s": accepted.time_s + spent_s,
                "device_s": accepted.device_s + spent_s, "stages_s": accepted.stages_s | stages.seconds,
            }
        )  # fmt: skip

    def _refuted(
        self, candidate: Candidate, build: Build, verdict: Verdict, stages: Stages
    ) -> tuple[Timing | None, Verdict]:
        """Confirm first where an earlier candidate lost its gain; return what was timed if this one loses it too."""
        if self._refuter is None or self._refuter.name in verdict.unsupported:
            return None, verdict
        timing, found = self._measure(candidate, build, "refuter", verdict, stages)
        if timing is None or found.status is not VerdictStatus.ACCEPTED:
            return timing, found
        lost = refuted_before(timing, self._problem.task.contract).lost_on
        return (timing, found) if lost else (None, verdict)

    def _known(self, name: str) -> Workload | None:
        return next((w for w in self._problem.task.split(Split.CONFIRM) if w.name == name), None)

    def _bound(self, candidate: Candidate, verdict: Verdict) -> None:
        """Work out the bounds where they were left for later and are needed now: what nothing times needs none."""
        right = verdict.status is VerdictStatus.ACCEPTED and not self._untimed(candidate)
        if self._find_bounds is not None and right:
            self._bounds, self._find_bounds = tuple(self._find_bounds()), None

    def _emit_verified(self, candidate: Candidate) -> None:
        """Report once that a kernel is correct on the search workloads."""
        if not self._verified_said:
            self._verified_said = True
            self._say("verified", candidate=candidate.key, language=candidate.language)

    def _emit_isolation(self) -> None:
        """Report once which sandbox layers a probe found to be effective here."""
        if not self._isolation_said:
            self._isolation_said = True
            self._say("isolation", layers=list(self._pool.layers))

    def _prescreen(
        self, candidate: Candidate, build: Build, verdict: Verdict, stages: Stages
    ) -> tuple[Timing | None, Verdict]:
        """Time a candidate against the first baseline and report it, before the other baselines start.

        Returns:
            The timing if that ends the screening, and the verdict: a candidate that is far slower than one baseline on
            every workload needs no other. Otherwise no timing.
        """
        timing, found = self._measure(candidate, build, "prescreen", verdict, stages)
        seen = decide(timing, found, self._bounds, self._problem.task.contract)
        if seen.speedup is not None:
            self._say(
                "prescreen",
                candidate=candidate.key,
                baseline=seen.baseline,
                speedup=seen.speedup.model_dump(mode="json"),
                time_us=seen.time_us,
            )
        over = seen.status in {DecisionStatus.SLOWER, DecisionStatus.REJECTED}
        return (timing, found) if over else (None, verdict)

    def _admitted(self, verdict: Verdict, stages: Stages) -> Verdict:
        """Add whether the task refuses wrong answers; computed once, for the first candidate."""
        if verdict.status is not VerdictStatus.ACCEPTED:
            return verdict
        with stages("admit"):
            try:
                if self._admission is None:
                    self._admission = admit(self._problem, oracle=self._oracle, deadline_s=stages.left_s)
            except TimeoutError:
                stages.over = True
                return verdict
        return joined(verdict, [self._admission.finding])

    def _raised_bounds(self) -> bool:
        """Remeasure the device's peaks once before an alarm is believed; return whether a bound changed."""
        if self._peaks_again:
            return False
        self._peaks_again = True
        try:
            with self._timing():
                peaks = peaks_of(self._device, self._settings, refresh=True)
                rates = rates_of(self._device, self._settings)
        except BusyError:
            return False
        known = {w.name: w for w in self._problem.task.workloads}
        new = tuple(bound(self._problem, known[b.workload], self._device, peaks, rates) for b in self._bounds)
        moved, self._bounds = new != self._bounds, new
        return moved

    def _verify(
        self,
        candidate: Candidate,
        build: Build,
        depth: Depth,
        stages: Stages,
        seeds: Sequence[int] | None = None,
        left_out: frozenset[str] = frozenset(),
    ) -> Verdict:
        """Verify while the baselines' imports run in parallel, once a candidate was right; earlier they would delay the
        first build and worker, and neither a refusal nor what nothing times needs them. Nor does a screening: what is
        far slower than the first baseline is timed against no other."""
        natives = [] if depth == "screen" or self._untimed(candidate) else self._natives
        if self._precomputed_s:
            stages.seconds["precompute"], self._precomputed_s = self._precomputed_s, 0.0
        with stages("verify"):
            return verify(
                self._problem, candidate, build, pool=self._pool, depth=depth, seeds=seeds, disabled=left_out,
                deadline_s=stages.within(_VERIFY_S), most_s=stages.within(math.inf),
                oracle=self._oracle if depth == "screen" else self._oracle.afresh(),
                on_right=lambda: self._pool.prepare(natives), hopeless_us=self._bench.hopeless_us,
            )  # fmt: skip

    def _measure(
        self,
        candidate: Candidate,
        build: Build,
        phase: Phase,
        verdict: Verdict,
        stages: Stages,
        workloads: Sequence[str] = (),
        tried: int = 1,
    ) -> tuple[Timing | None, Verdict]:
        """Measure one phase; none where time was up before it began, others had the device, or it cannot be timed."""
        if untimed := self._untimed(candidate):
            return None, joined(verdict, [untimed])
        limits_s = {"measure": min(_MEASURE_S, _MEASURED_SHARE * stages.left_s), "confirm": _CONFIRM_S}
        limit_s = limits_s.get(phase, _SCREEN_S)
        chosen = self._workloads(phase, verdict, workloads)
        if phase != "prescreen":
            if not self._bench.ready(chosen):
                self._say("baselines", names=list(self._baselines), workloads=[w.name for w in chosen])
            with stages("baselines"):
                stages.over = not self._bench.start(chosen, left_s=stages.left_s)
        try:
            with ExitStack() as held:
                with stages("wait"):
                    held.enter_context(self._timing())
                if stages.over:
                    return None, verdict
                with stages(phase):
                    timing, findings = self._bench.measure(
                        candidate,
                        build,
                        phase=phase,
                        workloads=chosen,
                        deadline_s=limit_s,
                        left_s=stages.left_s,
                        tried=tried,
                    )
        except BusyError:
            stages.over = True
            return None, verdict
        return timing, joined(verdict, findings)

    def _workloads(self, phase: Phase, verdict: Verdict, asked: Sequence[str]) -> list[Workload]:
        task = self._problem.task
        search = [w for w in task.split(Split.SEARCH) if w.name not in verdict.unsupported]
        found = [w for w in search if not asked or w.name in asked]
        if phase == "refuter":
            return [self._refuter] if self._refuter else []
        if phase == "confirm":
            sizes = [_elements(w) for w in found] or [0]
            least = min(sizes) * _LEAST_SHARE
            most = max(sizes) / _LEAST_SHARE if len(found) < len(search) else math.inf
            served = [w for w in task.split(Split.CONFIRM) if w.name not in verdict.unsupported]
            timed = [w for w in served if least <= _elements(w) <= most]
            timed.sort(key=lambda w: w != self._refuter)
            found += timed[:_MOST_CONFIRM]
        return found


def _elements(workload: Workload) -> int:
    specs = (*workload.arguments, *workload.outputs)
    return sum(math.prod(s.shape) for s in specs if isinstance(s, TensorSpec))
