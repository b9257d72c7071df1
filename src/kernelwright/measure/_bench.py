"""Measure candidates against warm baselines in paired blocks."""

import math
import os
import random
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import torch

from ..devices import Device
from ..records import (
    Block,
    Build,
    Candidate,
    CheckStatus,
    Finding,
    Split,
    TensorSpec,
    Timing,
    Workload,
)  # fmt: skip
from ..sandbox import FailureKind, Fetched, Pool, Reply, WorkerFailure
from ..tasks import Problem
from ._content import Content
from ._decide import confirmed, refuted, settled
from ._gates import gates
from ._layout import Layout
from ._legs import Baselines, CandidateLegs, Contestant, candidate_legs
from ._noise import Noise
from ._outputs import Tolerance, difference, tolerance
from ._schedule import CONFIRM_BLOCKS, CONFIRM_LOOKS, GLANCE_BLOCKS, LOOKS, SCREEN_BLOCKS, is_look
from ._startup import CANDIDATE

Phase = Literal["glance", "screen", "measure", "confirm"]
TIMED_CALLS, TIMED_OUTPUTS = "timed-calls", "timed-outputs"
_BLOCK_US = 1500.0
"""Microseconds that one leg of a block should take at least."""
_MOST_CALLS, _MOST_SETS = 256, 8
_MOST_OUTPUT_BYTES = 64 << 20
_CALL_LIMIT_S = 20.0
_COMPILE_LIMIT_S = 180.0
_SETTLE_S = 0.001
_ROUNDS = {"glance": GLANCE_BLOCKS, "screen": SCREEN_BLOCKS, "measure": LOOKS[-1], "confirm": CONFIRM_BLOCKS}
_FUTILE_ROUND = 3
_FAR_ROUND, _FAR_SHARE = 2, 0.8
"""A screening ends after so many rounds where all blocks are below this share of the best ratio so far."""


@dataclass(frozen=True)
class _Ends:
    """When a measurement ends, by `time.monotonic`."""

    soft: float
    """No new round starts after it."""
    hard: float
    """No new block starts after it."""

    @property
    def left_s(self) -> float:
        return self.hard - time.monotonic()

    @property
    def over(self) -> bool:
        return self.left_s <= 0


@dataclass
class _Station:
    """What one workload needs to be measured."""

    workload: Workload
    content: Content
    allowed: Tolerance
    legs: list[Contestant]
    calls: int
    noise: Noise


class Bench:
    """Opened once for a problem; keeps its baselines warm across candidates. A context manager.

    Covers: every leg of a block on the same fresh bytes, in random order, by the judge's clock; bytes that are
    not there before the clock starts; outputs of timed calls compared; disturbed blocks repeated and kept; cache
    state by contract.
    Does not cover: on a GPU, bytes that are not there before the clock; frequency changes within a block; two
    benches at once on one machine (take the device's lock first).
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
        self._best: dict[str, float] = {}
        """The best ratio to the first baseline that a screening has found, by workload."""
        self._random = random.Random(secrets.randbits(64))
        self._layout = Layout(pool, device, self._random)

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the baselines' workers."""
        self._baselines.close()

    @property
    def notes(self) -> dict[tuple[str, str], str]:
        """Why a baseline is absent, by its name and the workload's."""
        return self._baselines.notes

    def cold(self, workload: Workload) -> bool:
        """Tell whether the contract wants caches cold on the workload."""
        if self.problem.task.contract.cache != "auto":
            return self.problem.task.contract.cache == "cold"
        return _call_bytes(workload) > self.device.last_level_bytes / 2

    def ready(self, workloads: Sequence[Workload]) -> bool:
        """Tell whether every baseline runs on the workloads, or is known not to."""
        return not any(self._baselines.missing(w) for w in workloads)

    def start(
        self, workloads: Sequence[Workload], *, left_s: float = math.inf, only: str | None = None
    ) -> bool:
        """Start every baseline that does not run yet, and let all of them make their first call at once.

        The first call is what takes long: torch.compile compiles then. Nothing is timed meanwhile.

        Args:
            workloads: On which they will run.
            left_s: Seconds of the run's time; what is not up by then is not waited for.
            only: The one to start, if not all.

        Returns:
            Whether they are up; not where the time left came first.
        """
        end = time.monotonic() + left_s
        self._baselines.make_room(workloads)
        waiting = [(w, leg) for w in workloads for leg in self._baselines.started(w, end, only)]
        if not waiting:
            return time.monotonic() < end
        sets = [self._content(w).draw() for w, _ in waiting]
        numbers = []
        places = self._layout.place(sets)
        self._layout.fill()
        for (workload, leg), bound in zip(waiting, places, strict=True):
            self._give_state(workload, [leg])
            numbers.append(leg.worker.bind(bound, workload.outputs))
        with ThreadPoolExecutor(self.pool.threads) as threads:
            legs = [leg for _, leg in waiting]
            failures = list(threads.map(lambda leg, number: _first_call(leg, number, end), legs, numbers))
        for (workload, leg), failure in zip(waiting, failures, strict=True):
            if failure and time.monotonic() < end:
                self._baselines.give_up(workload, leg.name, failure)
            elif failure:
                self._baselines.drop(workload, leg.name)
        return time.monotonic() < end

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
            phase: `glance`: a few blocks against the first baseline alone; `screen`: a few blocks, fewer where
                it is far from the best; `measure`: until the decision is sure; `confirm`: a fixed number.
            workloads: On which workloads, in rounds.
            deadline_s: Seconds after which no new round starts; at least three rounds are tried.
            left_s: Seconds after which no new block starts, whatever there is; the run's own end.
            tried: From how many candidates this one was picked.

        Returns:
            The raw blocks, and what the timed calls gave away; no blocks where time ended before the first.
        """
        ends = _Ends(time.monotonic() + deadline_s, time.monotonic() + left_s)
        blocks: list[Block] = []
        legs: dict[tuple[str, int], Contestant] = {}
        findings = [_good(TIMED_CALLS), _good(TIMED_OUTPUTS)]
        with candidate_legs(self.problem, self.pool, candidate, build) as own:
            try:
                stations = self._set_up(own, workloads, phase, ends)
                for station in stations:
                    legs.update({(c.name, c.worker.pid): c for c in station.legs})
                self._rounds(stations, phase, blocks, ends, tried)
                if phase == "screen":
                    self._note_best(blocks)
            except _OutOfTimeError:
                pass
            except WorkerFailure as failure:
                findings = [_bad(TIMED_CALLS, f"{failure.kind.value}: {failure.message}")]
            except _WrongOutputError as wrong:
                findings = [_good(TIMED_CALLS), _bad(TIMED_OUTPUTS, str(wrong))]
            records = tuple(c.record() for c in legs.values())
        timing = Timing(
            legs=records,
            blocks=tuple(blocks),
            cache="cold" if workloads and self.cold(workloads[0]) else "warm",
            device=self.device.fingerprint,
        )
        return timing, findings + (
            gates(timing, self.pool.threads, self.problem.task.contract) if blocks else []
        )

    def _set_up(
        self, own: CandidateLegs, workloads: Sequence[Workload], phase: Phase, ends: _Ends
    ) -> list[_Station]:
        """Make every leg ready on every workload, warm it up, and choose how many calls make a block."""
        only = self._baselines.names[0] if phase == "glance" else None
        if phase == "confirm":
            for workload in workloads:
                self._baselines.drop(workload, "eager")
        if not self.start(workloads, left_s=ends.left_s, only=only):
            raise _OutOfTimeError
        stations = []
        for workload in workloads:
            try:
                mine = own.of(workload, max(5.0, ends.soft - time.monotonic()))
                stations.append(self._station(workload, mine, only, ends))
            except WorkerFailure as failure:
                if failure.kind is FailureKind.UNSUPPORTED and workload.split != "search":
                    continue
                raise
        return stations

    def _station(self, workload: Workload, mine: Contestant, only: str | None, ends: _Ends) -> _Station:
        allowed = self._tolerances.get(workload.name)
        if allowed is None:
            allowed = tolerance(self.problem, workload, secrets.randbits(48))
            self._tolerances[workload.name] = allowed
        station = _Station(workload, self._content(workload), allowed, [mine], 1, Noise())
        self._warm_up(station, mine, ends)
        for baseline in self._baselines.of(workload, only):
            try:
                self._warm_up(station, baseline, ends)
            except WorkerFailure as failure:
                self._baselines.give_up(workload, baseline.name, f"{failure.kind.value}: {failure.message}")
                continue
            station.legs.append(baseline)
        station.calls = self._choose_calls(station)
        return station

    def _content(self, workload: Workload) -> Content:
        if workload.name not in self._contents:
            self._contents[workload.name] = Content(self.problem, workload)
        return self._contents[workload.name]

    def _give_state(self, workload: Workload, legs: Sequence[Contestant]) -> None:
        state = self.problem.state(workload, secrets.randbits(48))
        for leg in legs:
            leg.take(state)

    def _warm_up(self, station: _Station, leg: Contestant, ends: _Ends) -> None:
        """Give the leg a state and a random number of calls on content that is not timed."""
        self._give_state(station.workload, [leg])
        for i in range(1 + self._random.randrange(3)):
            if ends.over:
                raise _OutOfTimeError
            sets = [station.content.draw()]
            reply, _ = self._visit(station, leg, sets, 1, fetch=0, limit_s=_COMPILE_LIMIT_S)
            if i == 0 and not leg.first_call_us:
                leg.first_call_us = reply.time_us

    def _choose_calls(self, station: _Station) -> int:
        """Return the calls that make the fastest leg's part of a block long enough to time."""
        if self.cold(station.workload) or self.problem.task.contract.mutates:
            return 1
        times = [
            min(
                self._visit(station, leg, [station.content.draw()], 4, fetch=0)[0].time_us / 4
                for _ in range(2)
            )
            for leg in station.legs
        ]
        room = _MOST_OUTPUT_BYTES // max(1, _bytes(station.workload.outputs))
        return max(1, min(_MOST_CALLS, room, int(_BLOCK_US / max(1.0, min(times))) + 1))

    def _rounds(
        self, stations: list[_Station], phase: Phase, blocks: list[Block], ends: _Ends, tried: int
    ) -> None:
        """Visit every workload once a round, in random order, until it is settled, over or late."""
        for number in range(1, _ROUNDS[phase] + 1):
            for station in self._random.sample(stations, len(stations)):
                repeated = True
                while repeated:
                    if ends.over:
                        return
                    self._give_state(station.workload, station.legs)
                    blocks.append(self._block(station, phase))
                    repeated = blocks[-1].repeated
            if self._is_enough(number, phase, blocks, tried):
                return
            if time.monotonic() > ends.soft and number >= _FUTILE_ROUND:
                return

    def _is_enough(self, number: int, phase: Phase, blocks: list[Block], tried: int) -> bool:
        """Tell whether the rounds so far say all that the phase asks for."""
        contract = self.problem.task.contract
        if phase == "confirm":
            searched = {w.name for w in self.problem.task.split(Split.SEARCH)}
            return number in CONFIRM_LOOKS and (
                confirmed(blocks, searched, contract) or refuted(blocks, searched, contract)
            )
        if phase == "screen" and number >= _FAR_ROUND and self._is_far(blocks):
            return True
        looking = phase == "measure" and is_look(number)
        return (looking or number == _FUTILE_ROUND) and settled(blocks, contract, tried)

    def _is_far(self, blocks: list[Block]) -> bool:
        """Tell whether every block of a screening is far from the best that was screened on its workload."""
        ratios = _ratios(blocks, self._baselines.names[0])
        return bool(ratios) and all(
            name in self._best and max(found) < _FAR_SHARE * self._best[name]
            for name, found in ratios.items()
        )

    def _note_best(self, blocks: list[Block]) -> None:
        for name, found in _ratios(blocks, self._baselines.names[0]).items():
            self._best[name] = max(median(found), self._best.get(name, 0.0))

    def _block(self, station: _Station, phase: Phase) -> Block:
        """Run every leg once on the same fresh bytes and compare what came out."""
        sets = [station.content.draw() for _ in range(min(station.calls, _MOST_SETS))]
        order = self._random.sample(station.legs, len(station.legs))
        look = self._random.randrange(station.calls)
        for leg in order:
            leg.worker.release()
        load = os.getloadavg()[0]
        replies: dict[str, Reply] = {}
        fetched: dict[str, Fetched] = {}
        for leg in order:
            replies[leg.name], fetched[leg.name] = self._visit(station, leg, sets, station.calls, fetch=look)
        self._compare(station, fetched)
        times = {name: reply.time_us / station.calls for name, reply in replies.items()}
        return Block(
            workload=station.workload.name,
            order=tuple(leg.name for leg in order),
            calls=station.calls,
            times_us=times,
            fetch_us={name: f.time_us for name, f in fetched.items() if not f.frozen},
            cpu_us={name: reply.cpu_us / station.calls for name, reply in replies.items()},
            load=load,
            phase=phase,
            repeated=station.noise.disturbed(times),
        )

    def _visit(
        self, station: _Station, leg: Contestant, sets: list[list[object]], calls: int, *, fetch: int,
        limit_s: float = _CALL_LIMIT_S,
    ) -> tuple[Reply, Fetched]:  # fmt: skip
        """Bind places, announce the calls, write the content, flush where asked, call, fetch one call's outputs."""
        leg.worker.release()
        places, on_gpu = self._layout.place(sets), self.device.kind != "cpu"
        if on_gpu:  # binding copies the content to the device
            self._layout.fill()
        numbers = [leg.worker.bind(bound, station.workload.outputs) for bound in places]

        def fill() -> None:
            if not on_gpu:
                self._layout.fill()
            if self.cold(station.workload):
                self._layout.flush_caches()
            time.sleep(_SETTLE_S)

        asked = [numbers[i % len(numbers)] for i in range(calls)]
        reply = leg.worker.call(asked, deadline_s=limit_s, fill=fill)
        return reply, _handed_over(leg, reply, calls, fetch, limit_s)

    def _compare(self, station: _Station, fetched: dict[str, Fetched]) -> None:
        """Hold the candidate's outputs against the first baseline's."""
        others = [name for name in fetched if name != CANDIDATE]
        if CANDIDATE not in fetched or not others:
            return
        baseline = "eager" if "eager" in others else others[0]
        if fetched[baseline].frozen and not fetched[CANDIDATE].frozen:
            raise _WrongOutputError("a timed call's output is not what was declared")
        wrong = difference(fetched[CANDIDATE].outputs, fetched[baseline].outputs, station.allowed)
        if wrong:
            raise _WrongOutputError(f"in a timed call, {wrong}")


def _handed_over(leg: Contestant, reply: Reply, calls: int, asked: int, limit_s: float) -> Fetched:
    """Fetch the outputs of one call; of all calls, for their time, where the worker runs on while they are copied."""
    wanted = leg.worker.fetch(reply.first + asked, deadline_s=limit_s)
    if wanted.frozen:
        return wanted
    rest = [leg.worker.fetch(reply.first + i, deadline_s=limit_s) for i in range(calls) if i != asked]
    return replace(wanted, time_us=wanted.time_us + sum(f.time_us for f in rest))


class _OutOfTimeError(Exception):
    """The run's time was up before the first block."""


class _WrongOutputError(Exception):
    """A timed call gave something else than the baseline."""


def _first_call(leg: Contestant, number: int, end: float) -> str:
    """Make a baseline's first call; return what went wrong, or nothing."""
    limit_s = max(0.0, min(_COMPILE_LIMIT_S, end - time.monotonic()))
    try:
        leg.first_call_us = leg.worker.call([number], deadline_s=limit_s).time_us
        leg.worker.release()
    except WorkerFailure as failure:
        return f"{failure.kind.value}: {failure.message}"
    return ""


def _ratios(blocks: Sequence[Block], baseline: str) -> dict[str, list[float]]:
    """Return the ratios of a baseline's times to the candidate's, by workload."""
    found: dict[str, list[float]] = {}
    for block in blocks:
        if baseline in block.times_us and not block.repeated:
            ratio = block.times_us[baseline] / block.times_us[CANDIDATE]
            found.setdefault(block.workload, []).append(ratio)
    return found


def _good(check: str) -> Finding:
    return Finding(check=check, status=CheckStatus.PASS)


def _bad(check: str, message: str) -> Finding:
    return Finding(check=check, status=CheckStatus.FAIL, message=message)


def _bytes(specs: Sequence[object]) -> int:
    return sum(
        math.prod(s.shape) * getattr(torch, s.dtype).itemsize for s in specs if isinstance(s, TensorSpec)
    )


def _call_bytes(workload: Workload) -> int:
    return _bytes((*workload.arguments, *workload.state, *workload.outputs))
