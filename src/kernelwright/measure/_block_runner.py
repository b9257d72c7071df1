"""Run the blocks of one workload: its content, its variants, and one block at a time."""

import copy
import math
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

import torch

from ..devices import Monitor
from ..records import Block, Contract, Workload
from ..sandbox import Fetched, Reply, settle
from ..tasks import Problem, keeps_weights, one_thread
from ._content import Content
from ._layout import Layout, bytes_of
from ._noise import Noise
from ._outputs import Given, Tolerance, difference
from ._startup import CANDIDATE
from ._variants import VariantWorker

Phase = Literal["prescreen", "screen", "measure", "confirm", "warm", "sizes", "refuter"]
COMPILE_LIMIT_S = 180.0
"""Timeout in seconds of a first call, in which a baseline may compile."""
_BLOCK_US = 3000.0
"""Least microseconds of one variant's calls in a block; waking its worker and its reply take 350 to 450 more."""
_COLD_BLOCK_US = 6000.0
"""The same with cold caches, where request and reply take 200 to 350 microseconds."""
_GPU_BLOCK_US = 12_000.0
"""The same on a GPU: a worker that lies may hide 0.2 ms there, in what a request takes and the device's turn to us."""
_LONG_BLOCK_US = 1e6
"""Most microseconds of all variants' calls in a block, so that a baseline a hundred times slower leaves time for more
rounds. The fixed cost of a block then weighs more, equally for all variants, and can only move ratios towards one."""
_MOST_CALLS, _MOST_COLD_CALLS, _TRIED_CALLS = 256, 8, 16
_LONG_CALL = 10
"""A call that took this many times as long as a block should is a block by itself, even if it was delayed."""
_MOST_OUTPUT_BYTES, _MOST_COLD_BYTES = 64 << 20, 256 << 20
_MOST_ARGUMENT_BYTES = 16 << 20
"""Most bytes of the arguments of a warm block's calls, so that they stay in the last-level cache."""
_SHARED_SHARE = 0.02
_EMPTY_REQUESTS = 3
"""Requests without calls after each block; the fastest counts, so that rather too little is taken off."""
_CALL_LIMIT_S = 20.0


class OutOfTimeError(Exception):
    """The run's time was up before the first block."""


class WrongOutputError(Exception):
    """A timed call returned something other than the baseline did."""


@dataclass(frozen=True)
class Ends:
    """When a measurement ends, by `time.monotonic`."""

    soft: float
    """No new round starts after this."""
    hard: float
    """No new block starts after this."""

    @property
    def left_s(self) -> float:
        """Seconds left in which a new block may start."""
        return self.hard - time.monotonic()

    @property
    def over(self) -> bool:
        """Whether it is too late for a new block."""
        return self.left_s <= 0


class BlockRunner:
    """Everything to measure one workload; variants are added one by one, each warmed up."""

    def __init__(
        self, problem: Problem, workload: Workload, content: Content, allowed: Tolerance, layout: Layout,
        random: Random, monitor: Monitor, *, cold: bool, brief: bool = False,
    ) -> None:  # fmt: skip
        """Prepare; `brief` relies on what is known of baselines that ran before: enough for a rank, not to decide."""
        self.workload, self.variants = workload, list[VariantWorker]()
        self._problem, self._content, self._allowed = problem, content, allowed
        self._layout, self._random, self._monitor, self.cold = layout, random, monitor, cold
        self._calls, self._noise, self._brief = 1, Noise(), brief

    @property
    def contract(self) -> Contract:
        """The task's contract."""
        return self._problem.task.contract

    def join(self, variant: VariantWorker, ends: Ends) -> None:
        """Give the variant its state, warm it up with a random number of untimed calls, and add it.

        Raises:
            WorkerFailure: the variant does not run.
            OutOfTimeError: the time was up first.
        """
        give_state(self._problem, self.workload, [variant])
        for i in range(1 if self._known_us(variant) else 1 + self._random.randrange(3)):
            if ends.over:
                raise OutOfTimeError
            reply, _ = self._visit(variant, [self._content.draw()], 1, fetch=0, limit_s=COMPILE_LIMIT_S)
            variant.warmed_us = reply.time_us
            if i == 0 and not variant.first_call_us:
                variant.first_call_us = reply.time_us
        if variant.kept is not None and not variant.checked:
            self._check(variant, variant.kept)
        self.variants.append(variant)

    def leave(self, names: Collection[str]) -> None:
        """Leave variants out of the blocks to come."""
        self.variants = [variant for variant in self.variants if variant.name not in names]

    def _check(self, variant: VariantWorker, seed: int) -> None:
        """Compare the result of a baseline that keeps its weights with the reference's for these weights.

        The weights are drawn again from their seed, once: in blocks the other variants have fresh ones, so it
        cannot be compared there.
        """
        given = self._content.draw()
        _, fetched = self._visit(variant, [given], 1, fetch=0)
        state = self._problem.state(self.workload, seed)
        right = self._problem.run_reference(self.workload, given, state).outputs
        if wrong := difference(fetched.outputs, right, self._allowed, (given, state)):
            raise WrongOutputError(wrong)
        variant.checked = True

    def warmed(self) -> "BlockRunner":
        """Return a copy that leaves caches warm, with the number of calls chosen again."""
        warm = copy.copy(self)
        warm.cold, warm._calls, warm._noise = False, 1, Noise()
        warm.choose_calls()
        return warm

    def choose_calls(self) -> None:
        """Choose the calls per block so that the fastest variant's part is long enough to time.

        Every variant makes that many calls once, so that its memory has grown before the first block.
        """
        if self.contract.mutates:
            return
        sets, wanted_us = [self._content.draw()], _COLD_BLOCK_US if self.cold else _BLOCK_US
        if any(variant.worker.on_gpu for variant in self.variants):
            wanted_us = _GPU_BLOCK_US
        each_us = [
            self._known_us(variant) or max(1.0, self._call_us(variant, sets, wanted_us))
            for variant in self.variants
        ]
        for variant, us in zip(self.variants, each_us, strict=True):
            variant.known_us[self.cold] = us
        long = max(1, int(_LONG_BLOCK_US / sum(each_us)))
        self._calls = min(int(wanted_us / min(each_us)) + 1, self._most_calls(), long)
        if self._calls > 1:
            sets = self._content.several(self._calls)
            for variant in self.variants:
                if not self._known_us(variant) or variant.most_calls < self._calls:
                    self._visit(variant, sets, self._calls, fetch=0)
                    variant.most_calls = self._calls

    def _known_us(self, variant: VariantWorker) -> float:
        """Return what a call of a baseline is known to take, if that is to be relied on; else 0."""
        return variant.known_us.get(self.cold, 0.0) if self._brief and variant.name != CANDIDATE else 0.0

    def _call_us(self, variant: VariantWorker, sets: list[list[object]], enough_us: float) -> float:
        """Return the time of a call, less the fixed cost of a block if that may matter."""
        tries = 1 if self._brief and variant.warmed_us > _LONG_CALL * enough_us else 2
        once = min(variant.warmed_us or math.inf, self._shortest_us(variant, sets, 1, tries))
        tried = min(_TRIED_CALLS, self._most_calls())
        if self.cold or tried == 1 or once > enough_us:
            return once
        return (self._shortest_us(variant, sets, tried) - once) / (tried - 1)

    def _shortest_us(
        self, variant: VariantWorker, sets: list[list[object]], calls: int, tries: int = 2
    ) -> float:
        return min(self._visit(variant, sets, calls, fetch=0)[0].time_us for _ in range(tries))

    def _most_calls(self) -> int:
        """Return how many calls fit in a block, at least one, each with its own inputs so that no call is repeated.

        When cold, the flush evicts the inputs; weights, which all calls share, would be warm from the second call on.
        """
        held, shared = bytes_of(self.workload.outputs), bytes_of(self.workload.state)
        given = bytes_of(self.workload.arguments)
        if not self.cold:
            room = _MOST_OUTPUT_BYTES // max(1, held), _MOST_ARGUMENT_BYTES // max(1, given)
            return max(1, min(_MOST_CALLS, self._content.most, *room))
        own = given + held
        if shared > _SHARED_SHARE * own:
            return 1
        return max(1, min(_MOST_COLD_CALLS, _MOST_COLD_BYTES // max(1, own)))

    def block(self, phase: Phase) -> Block:
        """Run every variant once on the same fresh bytes and compare the outputs.

        Raises:
            WorkerFailure: a variant no longer runs.
            WrongOutputError: the candidate's output differs from the baseline's.
        """
        state = give_state(self._problem, self.workload, self.variants)
        sets = self._content.several(self._calls)
        order = self._random.sample(self.variants, len(self.variants))
        look = self._random.randrange(self._calls)
        for variant in order:
            variant.worker.release()
            if variant.kept is not None and not self.cold:
                # The others' weights were just written, and are in a cache.
                self._visit(variant, [self._content.draw()], 1, fetch=0)
        replies: dict[str, Reply] = {}
        fetched: dict[str, Fetched] = {}
        for variant in order:
            replies[variant.name], fetched[variant.name] = self._visit(variant, sets, self._calls, fetch=look)
        self._compare(fetched, (sets[look % len(sets)], state))
        handshake_us = self._handshake_us()
        times = {name: _calls_us(reply, handshake_us) / self._calls for name, reply in replies.items()}
        return Block(
            workload=self.workload.name,
            order=tuple(variant.name for variant in order),
            calls=self._calls,
            times_us=times,
            fetch_us={name: f.time_us for name, f in fetched.items() if not f.frozen},
            fetch_cpu_us={name: f.cpu_us for name, f in fetched.items() if not f.frozen},
            cpu_us={name: reply.cpu_us / self._calls for name, reply in replies.items()},
            handshake_us=handshake_us,
            device_us={name: r.device_us / self._calls for name, r in replies.items() if r.device_us},
            taken_us={name: r.held.taken_us for name, r in replies.items() if r.held},
            left_us={name: r.held.left_us for name, r in replies.items() if r.held},
            conditions=self._monitor.look(),
            phase=phase,
            repeated=self._noise.disturbed(times),
        )

    def _handshake_us(self) -> float:
        """Return what a request without calls takes: of a baseline, so that no candidate has a say in it.

        On a GPU calls are so short, and inputs of their own for each so large, that it would hide most of a gain; on a
        CPU it is left in.
        """
        trusted = next((v.worker for v in self.variants if v.name != CANDIDATE), None)
        if trusted is None or not trusted.on_gpu:
            return 0.0
        requests = (
            trusted.call([], _CALL_LIMIT_S, fill=self._layout.fill, quiet=self._quiet)
            for _ in range(_EMPTY_REQUESTS)
        )
        return min(reply.time_us for reply in requests)

    def _quiet(self) -> None:
        """Flush caches if required, and let this process fall asleep."""
        if self.cold:
            self._layout.flush_caches()
        settle()

    def _visit(
        self,
        variant: VariantWorker,
        sets: list[list[object]],
        calls: int,
        *,
        fetch: int,
        limit_s: float = _CALL_LIMIT_S,
    ) -> tuple[Reply, Fetched]:
        """Bind addresses, announce the calls, write the content, flush if required, call, fetch one call's outputs."""
        worker, outputs = variant.worker, self.workload.outputs
        worker.release()
        with one_thread():  # so that `settle` hardly has to wait
            placed = self._layout.place(sets, late=worker.fills_late)
            numbers = worker.bind_all(placed, outputs, late=True)
            asked = [numbers[i % len(numbers)] for i in range(calls)]
            reply = worker.call(asked, deadline_s=limit_s, fill=self._layout.fill, quiet=self._quiet)
        return reply, _handed_over(variant, reply, calls, fetch, limit_s)

    def _compare(self, fetched: dict[str, Fetched], given: Given) -> None:
        """Compare the candidate's outputs with those of the first baseline that has the same weights."""
        others = [name for name in fetched if name != CANDIDATE and not keeps_weights(name)]
        if CANDIDATE not in fetched or not others:
            return
        baseline = "eager" if "eager" in others else others[0]
        on_gpu = any(
            variant.worker.on_gpu for variant in self.variants
        )  # where memory may be new to the judge
        if fetched[baseline].frozen and not fetched[CANDIDATE].frozen and not on_gpu:
            raise WrongOutputError("a timed call's output is not what was declared")
        wrong = difference(fetched[CANDIDATE].outputs, fetched[baseline].outputs, self._allowed, given)
        if wrong:
            raise WrongOutputError(f"in a timed call, {wrong}")


def _calls_us(reply: Reply, handshake_us: float) -> float:
    """Return what the calls alone took: never less than by the GPU's own clock, which a worker that lies about it can
    only make longer."""
    return max(1.0, reply.time_us - handshake_us, reply.device_us)


def give_state(
    problem: Problem, workload: Workload, variants: Sequence[VariantWorker]
) -> dict[str, torch.Tensor]:
    """Give every variant the same fresh parameters and buffers, and return them; skip those that keep their first."""
    seed, taking = secrets.randbits(48), [variant for variant in variants if variant.kept is None]
    state = problem.state(workload, seed) if taking else {}
    for variant in taking:
        variant.take(state, seed)
    return state


def _handed_over(variant: VariantWorker, reply: Reply, calls: int, asked: int, limit_s: float) -> Fetched:
    """Fetch the outputs of one call, or of all, to time them, if the worker keeps running while they are copied."""
    wanted = variant.worker.fetch(reply.first + asked, deadline_s=limit_s)
    if wanted.frozen:
        return wanted
    rest = [variant.worker.fetch(reply.first + i, deadline_s=limit_s) for i in range(calls) if i != asked]
    everything = (wanted, *rest)
    return replace(
        wanted, time_us=sum(f.time_us for f in everything), cpu_us=sum(f.cpu_us for f in everything)
    )
