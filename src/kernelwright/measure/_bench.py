"""Measure candidates against warm baselines in paired blocks."""

import math
import random
import secrets
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..devices import Device, Monitor, others_on
from ..records import (
    Block,
    Build,
    Candidate,
    CheckStatus,
    Finding,
    Split,
    Timing,
    Workload,
)  # fmt: skip
from ..sandbox import FailureKind, Pool, WorkerFailure
from ..system.resources import Resource
from ..tasks import Problem, keeps_weights
from ._block_runner import (
    COMPILE_LIMIT_S,
    BlockRunner,
    Ends,
    OutOfTimeError,
    Phase,
    WrongOutputError,
    give_state,
)
from ._carry_over import classes_of
from ._content import Content
from ._decide import confirmed, refuted, settled
from ._estimate import blocks_of
from ._gates import gates
from ._layout import Layout, bytes_of
from ._outputs import Tolerance, tolerance
from ._racing import outpaced
from ._sequential import (
    CONFIRM_BLOCKS,
    CONFIRM_LOOKS,
    LOOKS,
    PRESCREEN_BLOCKS,
    REFUTER,
    SCREEN_BLOCKS,
    SIZES_BLOCKS,
    WARM,
    WARM_BLOCKS,
    is_look,
)  # fmt: skip
from ._standing import Standing
from ._variants import Baselines, CandidateVariants, VariantWorker, candidate_variants

_LOAD_S = 60.0
"""Seconds that a candidate may take to load, as while it is verified."""
TIMED_CALLS, TIMED_OUTPUTS = "timed-calls", "timed-outputs"
_ROUNDS = {
    "prescreen": PRESCREEN_BLOCKS, "screen": SCREEN_BLOCKS, "sizes": SIZES_BLOCKS, "measure": LOOKS[-1],
    "confirm": CONFIRM_BLOCKS, REFUTER: CONFIRM_LOOKS[0],
}  # fmt: skip
_AGAINST_ONE = frozenset({"prescreen", "sizes"})
"""Phases that time against the first baseline alone."""
_TO_RANK = frozenset({"prescreen", "screen"})
"""Phases that only rank, by what is known already where it suffices, and from which later ones learn."""
_RACED = frozenset({"measure", "confirm"})
"""Phases in which a baseline is left out once another one outpaced it."""
_FUTILE_ROUND = 3
_LEAST_ROUNDS = {"measure": LOOKS[0], "confirm": CONFIRM_LOOKS[0]}
"""Rounds that are made, however long they take, if the run has the time: before the first look nothing is decided."""


class Bench(Resource):
    """Opened once per problem; keeps its baselines warm across candidates. A context manager.

    Covers: every variant of a block on the same fresh bytes, in random order, by the judge's clock; bytes that are
    not available before the clock starts; outputs of timed calls compared; disturbed blocks repeated and kept; cache
    state by contract.
    Does not cover: hiding the bytes until the clock starts on a GPU whose memory cannot be shared (`Pool.not_held`);
    frequency changes within a block; two benches at once on one machine (take the device's lock first).
    """

    def __init__(
        self,
        problem: Problem,
        pool: Pool,
        device: Device,
        *,
        baselines: tuple[str, ...] = ("eager", "compile"),
    ) -> None:
        self.problem, self.pool, self.device = problem, pool, device
        self._baselines = Baselines(problem, pool, baselines)
        self._tolerances: dict[str, Tolerance] = {}
        self._contents: dict[str, Content] = {}
        self._standing = Standing()
        self._random = random.Random(secrets.randbits(64))
        self._layout = Layout(pool, device, self._random)
        self._monitor = Monitor(device)

    def close(self) -> None:
        """Stop the baselines' workers."""
        self._baselines.close()

    @property
    def notes(self) -> dict[tuple[str, str], str]:
        """Why a baseline is missing, by its name and the workload's."""
        return self._baselines.notes

    @property
    def first(self) -> str:
        """Name of the first baseline: what runs where no kernel serves."""
        return self._baselines.names[0]

    @property
    def hopeless_us(self) -> dict[str, float]:
        """The time of one call, by workload, that no candidate with a chance takes, by the screenings so far."""
        return self._standing.hopeless_us

    def cold(self, workload: Workload) -> bool:
        """Whether the contract requires cold caches on the workload."""
        if self.problem.task.contract.cache != "auto":
            return self.problem.task.contract.cache == "cold"
        return (
            bytes_of((*workload.arguments, *workload.state, *workload.outputs))
            > self.device.last_level_bytes / 2
        )

    def ready(self, workloads: Sequence[Workload]) -> bool:
        """Whether every baseline runs on the workloads, or is known not to."""
        return not any(self._baselines.missing(w) for w in workloads)

    def start(
        self, workloads: Sequence[Workload], *, left_s: float = math.inf, only: Collection[str] | None = None
    ) -> bool:
        """Start every baseline that is not running yet, and let all of them make their first call in parallel.

        The first call is the slow one: torch.compile compiles then. Nothing is timed meanwhile.

        Args:
            workloads: Where they will run.
            left_s: Seconds left in the run; baselines that are not up by then are not waited for.
            only: The only ones to start; None starts all.

        Returns:
            Whether they are up; false if the time ran out first.
        """
        end = time.monotonic() + left_s
        self._baselines.make_room(workloads)
        waiting = [(w, variant) for w in workloads for variant in self._baselines.started(w, end, only)]
        if not waiting:
            return time.monotonic() < end
        sets = [self._content(w).draw() for w, _ in waiting]
        numbers = []
        places = self._layout.place(sets)
        self._layout.fill()
        for (workload, variant), bound in zip(waiting, places, strict=True):
            give_state(self.problem, workload, [variant])
            numbers.append(variant.worker.bind(bound, workload.outputs))
        with ThreadPoolExecutor(self.pool.threads) as threads:
            variants = [variant for _, variant in waiting]
            failures = list(
                threads.map(lambda variant, number: _first_call(variant, number, end), variants, numbers)
            )
        for (workload, variant), failure in zip(waiting, failures, strict=True):
            if failure and time.monotonic() < end:
                self._baselines.give_up(workload, variant.name, failure)
            elif failure:
                self._baselines.drop(workload, variant.name)
        return time.monotonic() < end

    def forget(self, workloads: Sequence[Workload]) -> None:
        """End what was kept for workloads that will not come again; the task's own stay."""
        for workload in workloads:
            if all(w.name != workload.name for w in self.problem.task.workloads):
                self._baselines.drop(workload, self._baselines.names[0])
                self._contents.pop(workload.name, None)
                self._tolerances.pop(workload.name, None)

    def measure(
        self,
        candidate: Candidate,
        build: Build,
        *,
        phase: Phase,
        workloads: Sequence[Workload],
        deadline_s: float = 30.0,
        left_s: float = math.inf,
        tried: int = 1,
    ) -> tuple[Timing, list[Finding]]:
        """Measure one candidate in a fresh process.

        Args:
            candidate: What to measure.
            build: Its build.
            phase: `prescreen`: a few blocks against the first baseline alone; `sizes`: the same at sizes that are none
                of the task's; `screen`: a few blocks, fewer where it is far from the best, against the baselines that
                may be the fastest; `measure`: until the decision is sure; `confirm`: a fixed number;
                `refuter`: a few, on the confirm workload that refused an earlier candidate.
            workloads: On which workloads, in rounds.
            deadline_s: Seconds after which no new round starts, once there were three, in `measure` and `confirm` as
                many as the first look needs.
            left_s: Seconds after which no new block starts in any case; the end of the run.
            tried: How many candidates this one was picked from.

        Returns:
            The raw blocks, and findings from the timed calls; no blocks if time ran out before the first.
        """
        ends = Ends(time.monotonic() + deadline_s, time.monotonic() + left_s)
        blocks: list[Block] = []
        variants: dict[tuple[str, int], VariantWorker] = {}
        findings = [_good(TIMED_CALLS), _good(TIMED_OUTPUTS)]
        with candidate_variants(self.problem, self.pool, candidate, build) as own:
            try:
                runners = self._set_up(own, workloads, phase, ends)
                for runner in runners:
                    variants.update({(c.name, c.worker.pid): c for c in runner.variants})
                self._rounds(runners, phase, blocks, ends, tried)
                if phase in _TO_RANK:
                    self._standing.learn(blocks, self._baselines.names if phase == "screen" else ())
                if phase == "confirm" and self._is_confirmed(blocks):
                    self._warm_blocks(runners, blocks, ends)
            except OutOfTimeError:
                pass
            except WorkerFailure as failure:
                findings = [_bad(TIMED_CALLS, f"{failure.kind.value}: {failure.message}")]
            except WrongOutputError as wrong:
                findings = [_good(TIMED_CALLS), _bad(TIMED_OUTPUTS, str(wrong))]
            records = tuple(c.record() for c in variants.values())
        timing = Timing(
            shared_us=self.pool.taken_by_others_us() if any(b.taken_us for b in blocks) else 0.0,
            others=others_on(self.device.torch_device),
            variants=records,
            blocks=tuple(blocks),
            cache="cold" if workloads and self.cold(workloads[0]) else "warm",
            device=self.device.fingerprint,
            classes=self._classes(workloads),
            weights=any(w.state for w in workloads),
        )
        return timing, findings + (
            gates(timing, self.pool.threads, self.problem.task.contract) if blocks else []
        )

    def _set_up(
        self, own: CandidateVariants, workloads: Sequence[Workload], phase: Phase, ends: Ends
    ) -> list[BlockRunner]:
        """Make every variant ready on every workload, warm it up, and choose how many calls make a block."""
        only = self._opponents(workloads, phase)
        if phase in {"confirm", REFUTER}:
            for workload in workloads:
                self._baselines.drop(workload, "eager")
        if not self.start(workloads, left_s=ends.left_s, only=only):
            raise OutOfTimeError
        runners = []
        for workload in workloads:
            try:
                mine = own.of(workload, _load_s(ends))
                runners.append(self._runner(workload, mine, only, ends, brief=phase in _TO_RANK))
            except WorkerFailure as failure:
                if failure.kind is FailureKind.UNSUPPORTED and workload.split != "search":
                    continue
                raise
        return runners

    def _opponents(self, workloads: Sequence[Workload], phase: Phase) -> Collection[str] | None:
        """Name the baselines that a phase is timed against; None for all."""
        if phase in _AGAINST_ONE:
            return self._baselines.names[:1]
        if phase == "confirm":
            return [name for name in self._baselines.names if name not in self._standing.outpaced]
        found = self._standing.contenders if phase == "screen" else None
        absent = found and any((name, w.name) in self._baselines.notes for name in found for w in workloads)
        return None if absent else found

    def _runner(
        self,
        workload: Workload,
        mine: VariantWorker,
        only: Collection[str] | None,
        ends: Ends,
        *,
        brief: bool,
    ) -> BlockRunner:
        allowed = self._tolerances.get(workload.name)
        if allowed is None:
            allowed = tolerance(self.problem, workload, secrets.randbits(48))
            self._tolerances[workload.name] = allowed
        runner = BlockRunner(
            self.problem, workload, self._content(workload), allowed, self._layout, self._random,
            self._monitor, cold=self.cold(workload), brief=brief,
        )  # fmt: skip
        runner.join(mine, ends)
        for baseline in self._baselines.of(workload, only):
            if keeps_weights(baseline.name) and runner.variants == [mine]:
                continue  # nothing could be compared in the timed calls
            try:
                runner.join(baseline, ends)
            except WorkerFailure as failure:
                self._baselines.give_up(workload, baseline.name, f"{failure.kind.value}: {failure.message}")
            except WrongOutputError as wrong:
                self._baselines.give_up(
                    workload, baseline.name, f"wrong with the weights that it keeps: {wrong}"
                )
        runner.choose_calls()
        return runner

    def _content(self, workload: Workload) -> Content:
        if workload.name not in self._contents:
            self._contents[workload.name] = Content(self.problem, workload)
        return self._contents[workload.name]

    def _rounds(
        self, runners: list[BlockRunner], phase: Phase, blocks: list[Block], ends: Ends, tried: int
    ) -> None:
        """Visit every workload once per round, in random order, until the result is settled or time is up."""
        for number in range(1, _ROUNDS[phase] + 1):
            for runner in self._random.sample(runners, len(runners)):
                repeated = True
                while repeated:
                    if ends.over:
                        return
                    blocks.append(runner.block(phase))
                    repeated = blocks[-1].repeated
            if self._is_enough(number, phase, blocks, tried):
                return
            self._race(runners, phase, blocks)
            if time.monotonic() > ends.soft and number >= _LEAST_ROUNDS.get(phase, _FUTILE_ROUND):
                return

    def _race(self, runners: list[BlockRunner], phase: Phase, blocks: list[Block]) -> None:
        """Leave out who was outpaced so far, and was no contender in a screening; of the confirmation to come too."""
        if phase not in _RACED:
            return
        slow = set(outpaced(blocks_of(blocks))) - (self._standing.contenders or set())
        for runner in runners:
            runner.leave(slow)
        if phase == "measure":
            self._standing.outpaced = frozenset(slow)

    def _is_enough(self, number: int, phase: Phase, blocks: list[Block], tried: int) -> bool:
        """Whether the rounds so far are enough for the phase."""
        contract = self.problem.task.contract
        if phase == "confirm":
            return number in CONFIRM_LOOKS and (
                self._is_confirmed(blocks) or refuted(blocks, self._searched, contract, self._confirm_classes)
            )
        if phase in {"sizes", REFUTER}:
            return False
        if phase == "screen" and self._standing.is_far(blocks, number):
            return True
        looking = phase == "measure" and is_look(number)
        return (looking or number == _FUTILE_ROUND) and settled(blocks, contract, tried)

    @property
    def _searched(self) -> set[str]:
        return {w.name for w in self.problem.task.split(Split.SEARCH)}

    def _is_confirmed(self, blocks: list[Block]) -> bool:
        return confirmed(blocks, self._searched, self.problem.task.contract, self._confirm_classes)

    @property
    def _confirm_classes(self) -> dict[str, str]:
        return self._classes(self.problem.task.split(Split.CONFIRM))

    def _classes(self, workloads: Sequence[Workload]) -> dict[str, str]:
        """Say what differs in the confirm workloads among these from those that are searched on."""
        task = self.problem.task
        return classes_of([w for w in workloads if w.split is Split.CONFIRM], task.split(Split.SEARCH))

    def _warm_blocks(self, runners: list[BlockRunner], blocks: list[Block], ends: Ends) -> None:
        """Time what was confirmed on cold caches with warm ones too: extra figures, never part of the decision."""
        for runner in runners:
            if runner.cold and runner.workload.name in self._searched and not ends.over:
                warm = runner.warmed()
                blocks.extend(warm.block(WARM) for _ in range(WARM_BLOCKS))


def _load_s(ends: Ends) -> float:
    """Return the seconds that a candidate may take to load: as many as while it was verified, if the run has them."""
    now = time.monotonic()
    return max(5.0, ends.soft - now, min(_LOAD_S, ends.hard - now))


def _first_call(variant: VariantWorker, number: int, end: float) -> str:
    """Make a baseline's first call; return the error, if any."""
    limit_s = max(0.0, min(COMPILE_LIMIT_S, end - time.monotonic()))
    try:
        variant.first_call_us = variant.worker.call([number], deadline_s=limit_s).time_us
        variant.worker.release()
    except WorkerFailure as failure:
        return f"{failure.kind.value}: {failure.message}"
    return ""


def _good(check: str) -> Finding:
    return Finding(check=check, status=CheckStatus.PASS)


def _bad(check: str, message: str) -> Finding:
    return Finding(check=check, status=CheckStatus.FAIL, message=message)
