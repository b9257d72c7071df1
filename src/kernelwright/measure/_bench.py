"""Measure candidates against warm baselines in paired blocks."""

import os
import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

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
from ..sandbox import Argument, FailureKind, Fetched, Pool, Reply, Slot, WorkerFailure
from ..tasks import Problem
from ._content import Content
from ._decide import CANDIDATE, confirmed, settled
from ._gates import gates
from ._legs import Baselines, CandidateLegs, Contestant, candidate_legs
from ._noise import Noise
from ._outputs import Tolerance, difference, tolerance
from ._schedule import CONFIRM_BLOCKS, CONFIRM_LOOKS, LOOKS, SCREEN_BLOCKS, is_look

Phase = Literal["screen", "measure", "confirm"]
TIMED_CALLS, TIMED_OUTPUTS = "timed-calls", "timed-outputs"
_BLOCK_US = 1500.0
"""Microseconds that one leg of a block should take at least."""
_MOST_CALLS, _MOST_SETS = 256, 8
_MOST_OUTPUT_BYTES = 64 << 20
_CALL_LIMIT_S = 20.0
_COMPILE_LIMIT_S = 180.0
_SETTLE_S = 0.001
_ROUNDS = {"screen": SCREEN_BLOCKS, "measure": LOOKS[-1], "confirm": CONFIRM_BLOCKS}
_FUTILE_ROUND = 3


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

    Covers: every leg of a block on the same fresh bytes, in random order, by the judge's clock; outputs of
    timed calls compared; disturbed blocks repeated and kept; cache state by contract.
    Does not cover: frequency changes within a block; two benches at once on one machine (take the device's
    lock first).
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
        self._arena = pool.arena
        self._laid: tuple[list[list[object]], list[tuple[Argument, ...]]] = ([], [])
        self._flush: torch.Tensor | None = None
        self._random = random.Random(secrets.randbits(64))

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

    def measure(
        self,
        candidate: Candidate,
        build: Build,
        *,
        phase: Phase,
        workloads: Sequence[Workload],
        deadline_s: float = 30.0,
        tried: int = 1,
    ) -> tuple[Timing, list[Finding]]:
        """Measure one candidate in a fresh process.

        Args:
            candidate: What to measure.
            build: Its build.
            phase: `screen`: a few blocks; `measure`: until the decision is sure; `confirm`: a fixed number.
            workloads: On which workloads, in rounds.
            deadline_s: Seconds after which no new round starts; at least three rounds are tried.
            tried: From how many candidates this one was picked.

        Returns:
            The raw blocks, and what the timed calls gave away.
        """
        end = time.monotonic() + deadline_s
        blocks: list[Block] = []
        legs: dict[tuple[str, int], Contestant] = {}
        with candidate_legs(self.problem, self.pool, candidate, build) as own:
            try:
                stations = self._set_up(own, workloads, phase, end)
                for station in stations:
                    legs.update({(c.name, c.worker.pid): c for c in station.legs})
                self._rounds(stations, phase, blocks, end, tried)
                findings = [_good(TIMED_CALLS), _good(TIMED_OUTPUTS)]
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
        return timing, findings + (gates(timing, self.pool.threads) if blocks else [])

    def _set_up(
        self, own: CandidateLegs, workloads: Sequence[Workload], phase: Phase, end: float
    ) -> list[_Station]:
        """Make every leg ready on every workload, warm it up, and choose how many calls make a block."""
        stations = []
        for workload in workloads:
            if phase == "confirm":
                self._baselines.drop(workload, "eager")
            try:
                mine = own.of(workload, max(5.0, end - time.monotonic()))
                station = self._station(workload, mine)
            except WorkerFailure as failure:
                if failure.kind is FailureKind.UNSUPPORTED and workload.split != "search":
                    continue
                raise
            stations.append(station)
        return stations

    def _station(self, workload: Workload, mine: Contestant) -> _Station:
        name = workload.name
        if name not in self._contents:
            self._contents[name] = Content(self.problem, workload)
            self._tolerances[name] = tolerance(self.problem, workload, secrets.randbits(48))
        station = _Station(workload, self._contents[name], self._tolerances[name], [mine], 1, Noise())
        self._warm_up(station, mine)
        for baseline in self._baselines.of(workload):
            try:
                self._warm_up(station, baseline)
            except WorkerFailure as failure:
                self._baselines.give_up(workload, baseline.name, f"{failure.kind.value}: {failure.message}")
                continue
            station.legs.append(baseline)
        station.calls = self._choose_calls(station)
        return station

    def _warm_up(self, station: _Station, leg: Contestant) -> None:
        """Give the leg a state and a random number of calls on content that is not timed."""
        state = self.problem.state(station.workload, secrets.randbits(48))
        if state:
            leg.worker.set_state(state)
        for i in range(1 + self._random.randrange(3)):
            reply, _ = self._visit(
                station, leg, [station.content.draw()], 1, fetch=0, limit_s=_COMPILE_LIMIT_S
            )
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
        self, stations: list[_Station], phase: Phase, blocks: list[Block], end: float, tried: int
    ) -> None:
        """Visit every workload once a round, in random order, until it is settled, over or late."""
        contract = self.problem.task.contract
        searched = {w.name for w in self.problem.task.split(Split.SEARCH)}
        for number in range(1, _ROUNDS[phase] + 1):
            for station in self._random.sample(stations, len(stations)):
                state = self.problem.state(station.workload, secrets.randbits(48))
                for leg in station.legs if state else ():
                    leg.worker.set_state(state)
                block = self._block(station, phase)
                blocks.append(block)
                while block.repeated:
                    block = self._block(station, phase)
                    blocks.append(block)
            looking = phase == "measure" and is_look(number)
            futile = phase != "confirm" and number == _FUTILE_ROUND
            if (looking or futile) and settled(blocks, contract, tried):
                return
            if phase == "confirm" and number in CONFIRM_LOOKS and confirmed(blocks, searched, contract):
                return
            if time.monotonic() > end and number >= _FUTILE_ROUND:
                return

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
        """Lay out the content anew, bind it, flush where asked, call, fetch the outputs of one call."""
        leg.worker.release()
        if self._laid[0] is not sets:
            self._lay_out(sets)
        else:
            self._refill(sets)
        numbers = [leg.worker.bind(bound, station.workload.outputs) for bound in self._laid[1]]
        if self.cold(station.workload):
            self._flush_caches()
        time.sleep(_SETTLE_S)
        reply = leg.worker.call([numbers[i % len(numbers)] for i in range(calls)], deadline_s=limit_s)
        return reply, leg.worker.fetch(reply.first + fetch, deadline_s=limit_s)

    def _lay_out(self, sets: list[list[object]]) -> None:
        """Place the content at addresses that differ from block to block."""
        tensors = [v for values in sets for v in values if isinstance(v, torch.Tensor)]
        needed = (1 << 20) + sum(2 * t.nbytes + (1 << 14) for t in tensors)
        if needed > self._arena.size_bytes:
            self._arena = self.pool.new_arena(needed)
        self._arena.reset()
        self._laid = (sets, [self._placed(values) for values in sets])

    def _placed(self, values: Sequence[object]) -> tuple[Argument, ...]:
        skew = 64 * self._random.randrange(64)
        return tuple(
            self._arena.place(v, skew) if isinstance(v, torch.Tensor) else cast(Argument, v) for v in values
        )

    def _refill(self, sets: list[list[object]]) -> None:
        """Write the same bytes again, so that every leg finds them whole and equally near."""
        for values, bound in zip(sets, self._laid[1], strict=True):
            for value, slot in zip(values, bound, strict=True):
                if isinstance(slot, Slot) and isinstance(value, torch.Tensor):
                    self._arena.refill(slot, value)

    def _flush_caches(self) -> None:
        """Stream through twice the last level, so that neither inputs nor code's data stay cached."""
        if self._flush is None:
            self._flush = torch.zeros(max(1, 2 * self.device.last_level_bytes // 4), dtype=torch.int32)
        self._flush.add_(1)

    def _compare(self, station: _Station, fetched: dict[str, Fetched]) -> None:
        """Hold the candidate's outputs against the first baseline's."""
        others = [name for name in fetched if name != CANDIDATE]
        if CANDIDATE not in fetched or not others:
            return
        baseline = "eager" if "eager" in others else others[0]
        wrong = difference(fetched[CANDIDATE].outputs, fetched[baseline].outputs, station.allowed)
        if wrong:
            raise _WrongOutputError(f"in a timed call, {wrong}")


class _WrongOutputError(Exception):
    """A timed call gave something else than the baseline."""


def _good(check: str) -> Finding:
    return Finding(check=check, status=CheckStatus.PASS)


def _bad(check: str, message: str) -> Finding:
    return Finding(check=check, status=CheckStatus.FAIL, message=message)


def _bytes(specs: Sequence[object]) -> int:
    from math import prod

    return sum(prod(s.shape) * getattr(torch, s.dtype).itemsize for s in specs if isinstance(s, TensorSpec))


def _call_bytes(workload: Workload) -> int:
    return _bytes((*workload.arguments, *workload.state, *workload.outputs))
