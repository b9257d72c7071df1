"""The judge's handle on one worker.

Covers: every operation ends by its deadline or the worker is killed; answers are validated; time and CPU time
are read here, outside the worker; the worker is stopped the moment it replies to a call, so that outputs are
made from bytes that were there when the clock stopped; it stays stopped while it is not asked, and while the
content of timed calls is written.
Does not cover: what the answers mean; verify and measure decide.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, NonNegativeInt, TypeAdapter
from torch import Tensor

from ..records import Packing, TensorSpec
from . import _inspection
from ._arena import Arena
from ._channel import Message, encode
from ._connection import Connection
from ._holder import Holder
from ._loan import Loan
from ._memory import library_memory, read_memory
from ._output_transfer import OFFSETS, STATE, Snapshot
from ._packing import Names
from ._requests import arenas_of, encoded, slot_message
from ._types import Argument, Fetched, OutputFact, Reply
from ._worker_process import WorkerProcess

_FACTS = TypeAdapter(tuple[OutputFact, ...])
_NUMBERS = TypeAdapter(tuple[int, ...])
_SPAN = TypeAdapter(tuple[NonNegativeInt, Annotated[int, Field(ge=0, le=1 << 24)]])
_MICROSECONDS = TypeAdapter(Annotated[float, Field(ge=0, allow_inf_nan=False)])
_SEGMENTS = TypeAdapter(tuple[tuple[NonNegativeInt, NonNegativeInt, str], ...])
_STATE_DEADLINE_S = 60.0
_MOST_STATE_BYTES = 256 << 20
"""Most bytes of shared memory that a worker keeps for its next state."""
_READY_S = 20.0
"""Seconds in which a worker says that it knows what to call, for which nothing of the candidate's need run."""


@dataclass(frozen=True)
class _Call:
    """Where a call's outputs lie, as its reply said, and what they should be."""

    places: object
    outputs: tuple[TensorSpec, ...]
    on_device: bool = False
    """Whether the judge may find the outputs in the worker's memory on a GPU."""


class Worker(WorkerProcess):
    """One process with one candidate; made by `Pool.worker`, used as a context manager.

    Every operation raises `WorkerFailure`; unless the failure says that the worker is `alive`, it has
    been killed with everything it started.
    """

    def __init__(self, connection: Connection, arena: Callable[[int], Arena]) -> None:
        super().__init__(connection)
        self._arena = arena
        self._mapped: set[int] = set()
        self._sets: dict[int, tuple[TensorSpec, ...]] = {}
        self._calls: list[_Call] = []
        self._loan: Loan | None = None
        self._state_memory: Arena | None = None
        self._names: Names | None = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def borrow(self, holder: Holder) -> None:
        """Take the arguments of timed calls from memory of the judge's on a GPU."""
        self._loan = Loan(holder, self._connection)
        if self.on_gpu:
            self._transfer.read = self._loan.segments.read

    def try_borrowing(self, holder: Holder, arena: Arena, *, deadline_s: float = 30.0) -> None:
        """Find out whether it can be done; raises `DriverError` where we cannot, `WorkerFailure` where it cannot."""
        self._map(arena, deadline_s)
        with Loan(holder, self._connection) as loan:
            loan.try_out(arena, deadline_s)
        self._connection.rest()

    @property
    def fills_late(self) -> bool:
        """Whether what is bound `late` can be written while the worker is stopped: on a CPU, and where it borrows."""
        return self._loan is not None or not self.on_gpu

    def kill(self) -> None:
        """Kill the worker and everything it started; nothing to do where it is dead."""
        super().kill()
        for held in (self._loan, self._state_memory):
            if held is not None:
                held.close()

    def rename(self, names: Mapping[str, str], own: Sequence[str], packings: Sequence[Packing] = ()) -> None:
        """From now on take and return state, and return gradients of it, by other names than the module's.

        Args:
            names: the module's name for each other one; what is named otherwise is not given to it.
            own: what it has beyond those, which stays as it is.
            packings: its tensors that hold some of the state in another layout.
        """
        self._names = Names(dict(names), tuple(own), tuple(packings))
        self._connection.ask(self._names.message, _STATE_DEADLINE_S)
        self._connection.rest()

    def set_state(
        self, state: Mapping[str, Tensor], *, in_place: bool = False, deadline_s: float = _STATE_DEADLINE_S
    ) -> None:
        """Give the candidate parameters and buffers, by name for modules, in order for functions.

        Args:
            state: tensors by name; names, shapes and dtypes must be exactly a module's own.
            in_place: write into the tensors that are there, instead of `load_state_dict`; those that are not
                named stay as they are.
            deadline_s: seconds.
        """
        state, own = (state, ()) if self._names is None else (self._names.given(state), self._names.own)
        size = sum(t.numel() * t.element_size() + 8192 for t in state.values()) + 8192
        with self._room(size, deadline_s) as arena:
            tensors = [[name, slot_message(arena.place(t.detach().cpu()))] for name, t in state.items()]
            message: Message = {"op": "set_state", "tensors": tensors, "in_place": in_place, "own": own}
            self._connection.ask(message, deadline_s)
        self._connection.rest()

    def prepare(self, *, deadline_s: float = _STATE_DEADLINE_S) -> float:
        """Let the candidate pack the weights that it has now; return microseconds, 0 where it declares no `prepare`."""
        if not self.loaded.prepares:
            return 0.0
        start = time.perf_counter_ns()
        self._connection.ask({"op": "prepare"}, deadline_s)
        time_us = (time.perf_counter_ns() - start) / 1000
        self._connection.rest()
        return time_us

    def state(self, *, deadline_s: float = _STATE_DEADLINE_S) -> dict[str, Tensor]:
        """Return parameters and buffers as they are now, by name."""
        take, parse = self._transfer.take, self._transfer.parse
        reply = self._transfer.copied_out({"op": "state"}, time.monotonic() + deadline_s)
        described, offsets = parse(STATE, reply, "tensors"), parse(OFFSETS, reply, "offsets")
        tensors = take([(shape, dtype) for _, shape, dtype in described], offsets)
        held = {name: tensor for (name, _, _), tensor in zip(described, tensors, strict=True)}
        return held if self._names is None else self._names.told(held)

    def seed(self, value: int, *, deadline_s: float = 10.0) -> None:
        """Seed torch's generators in the worker."""
        self._connection.ask({"op": "seed", "value": value}, deadline_s)

    def bind(
        self, arguments: Sequence[Argument], outputs: Sequence[TensorSpec], *, deadline_s: float = 30.0
    ) -> int:
        """Make an argument set and return its number; every set has tensor objects of its own."""
        return self.bind_all([arguments], outputs, deadline_s=deadline_s)[0]

    def bind_all(
        self,
        sets: Sequence[Sequence[Argument]],
        outputs: Sequence[TensorSpec],
        *,
        late: bool = False,
        deadline_s: float = 30.0,
    ) -> tuple[int, ...]:
        """Make argument sets of the same outputs and return their numbers.

        Args:
            sets: arguments of each.
            outputs: what a call returns.
            late: their content is what `call` fills in, on a GPU too, where `fills_late` says that it can.
            deadline_s: seconds.
        """
        loan = self._loan if late else None
        for number in sorted(arenas_of(sets)):
            self._map(self._arena(number), deadline_s)
            if loan is not None:
                loan.bind(self._arena(number), deadline_s)
        message: Message = {
            "op": "bind",
            "sets": [[encoded(a) for a in arguments] for arguments in sets],
            "outputs": [o.model_dump(mode="json") for o in outputs],
            "late": loan is not None,
        }
        made = self._transfer.parse(_NUMBERS, self._connection.ask(message, deadline_s), "numbers")
        if len(made) != len(sets):
            raise self._connection.reject(f"bind made {len(made)} sets of {len(sets)}")
        self._transfer.expect(outputs)
        self._sets |= dict.fromkeys(made, tuple(outputs))
        if loan is not None:
            said = self._transfer.parse(
                _SEGMENTS, self._connection.ask({"op": "segments"}, deadline_s), "segments"
            )
            loan.segments.learn(said)
        return made

    def push(self, number: int, *, deadline_s: float = 30.0) -> None:
        """Let a set's arguments hold what was written into their slots since; on a CPU they are the slots."""
        if self.on_gpu:
            self._connection.ask({"op": "push", "set": number}, deadline_s)

    def pull(self, number: int, *, deadline_s: float = 30.0) -> None:
        """Let slots, and the guard bands around them, hold what calls made of a set's arguments."""
        if self.on_gpu:
            self._connection.ask({"op": "pull", "set": number}, deadline_s)
            self._connection.rest()

    def call(
        self,
        sets: Sequence[int],
        deadline_s: float = 60.0,
        *,
        fill: Callable[[], None] | None = None,
        quiet: Callable[[], None] = lambda: None,
        busy_s: float = math.inf,
    ) -> Reply:
        """Call the kernel once for each set, in order, keeping the outputs; this is what is timed.

        The worker is stopped at its reply, until it is asked for something else than `fetch`ed outputs.

        Args:
            sets: numbers from `bind`.
            deadline_s: seconds.
            fill: writes the arguments' content, while the worker knows what to call and is stopped, so that
                nothing can be computed of it before the clock starts.
            quiet: makes the machine ready after that: caches, threads of the judge.
            busy_s: seconds that it may compute, by the clock and of CPU time, where that is less than the deadline;
                one that does nothing at all is given up after `sandbox._stalled.IDLE_S` seconds.
        """
        deadline = time.monotonic() + deadline_s
        word = secrets.randbits(52)
        number = self._connection.begin({"op": "call", "sets": list(sets), "go": word}, deadline_s)
        self._connection.expect(number, min(deadline, time.monotonic() + _READY_S))
        go = encode({"go": word})
        loan = self._loan if fill is not None else None
        if fill is not None:
            self._filled(fill, quiet, loan)
        stall, cpu_before = self._connection.stall(busy_s), _inspection.cpu_us(self.pid)
        start = time.perf_counter_ns()
        if loan is not None:
            loan.start()
        self._connection.send_raw(go, deadline)
        self._connection.freezer.thaw()
        struck = loan.look if loan is not None else lambda: None
        reply, stopped_ns = self._connection.expect_frozen(number, deadline, stall, struck)
        time_us = (stopped_ns - start) / 1000
        cpu_us = _inspection.cpu_us(self.pid) - cpu_before
        held = loan.taken() if loan is not None else None
        places = reply.get("places")
        if reply.get("go") != word or reply.get("done") != len(sets):
            raise self._connection.reject("the worker reported the end of something else than the call")
        if not isinstance(places, list) or len(places) != len(sets):
            raise self._connection.reject("the worker did not say where the outputs lie")
        first = len(self._calls)
        on_device = loan is not None
        self._calls += [_Call(p, self._sets.get(n, ()), on_device) for p, n in zip(places, sets, strict=True)]
        device_us = self._transfer.parse(_MICROSECONDS, reply, "device_us")
        return Reply(time_us, cpu_us, _inspection.threads(self.pid), first, device_us, held)

    def _filled(self, fill: Callable[[], None], quiet: Callable[[], None], loan: Loan | None) -> None:
        """Stop the worker and write the content of what it was told to call; on a GPU a kernel of the judge's runs."""
        self._connection.rest()
        fill()
        if loan is not None:
            loan.fill()
        quiet()
        if loan is not None:
            loan.hold()

    def call_late(self, number: int, *, deadline_s: float = 60.0) -> None:
        """Call once on a GPU, on what was written into the slots since, which the caller's stream brings late.

        What is fetched of it is what that stream saw of the outputs after the call.
        """
        self._connection.ask({"op": "call_late", "set": number}, deadline_s)
        self._calls.append(_Call(None, self._sets.get(number, ())))

    def fetch(self, index: int = -1, *, deadline_s: float = 60.0) -> Fetched:
        """Take the outputs of a call; `index` counts calls since the last `release`, -1 is the latest.

        The same call may be fetched again, to see that later calls left its outputs alone. The first fetch
        after a call sees the bytes as they were when the clock stopped.
        """
        cpu_before = _inspection.cpu_us(self.pid)
        start, deadline = time.perf_counter_ns(), time.monotonic() + deadline_s
        call = self._calls[index] if -len(self._calls) <= index < len(self._calls) else _Call(None, ())
        snapshots = self._snapshots(call)
        facts = self._facts({"op": "facts", "index": index}, deadline)
        outputs = None
        if snapshots or (self.reads_frozen and call.outputs):
            outputs = self._transfer.interpret(snapshots, facts, call.outputs)
        frozen = outputs is not None
        if outputs is None:
            facts, outputs = self._copied(index, deadline, call.outputs)
        time_us = (time.perf_counter_ns() - start) / 1000
        cpu_us = _inspection.cpu_us(self.pid) - cpu_before
        self._connection.rest()
        return Fetched(outputs, facts, time_us, frozen, cpu_us)

    def outputs_of(self, reply: Reply) -> tuple[Tensor, ...] | None:
        """Read every output of a request's calls at once, before anything else is asked of the worker.

        Returns:
            For each output a tensor whose first axis counts calls; none where the stopped worker cannot be
            read or an output is not contiguous: `fetch` then takes them one after the other.
        """
        calls = self._calls[reply.first :]
        if not self.reads_frozen or not self._connection.freezer.frozen or not calls or not calls[0].outputs:
            return None
        return self._transfer.stacked([c.places for c in calls], calls[0].outputs)

    def library_memory(self, name: str, spans: Sequence[tuple[int, int]]) -> bytes | None:
        """Read parts of a library that the worker has loaded, by file name; none where it may not be read."""
        return library_memory(self.pid, name, spans) if self.reads_frozen else None

    def thread_memory(self, name: str, *, deadline_s: float = 10.0) -> bytes | None:
        """Read what a library keeps for the thread that calls it; none where nothing was found or may be read.

        The worker says where it is; the bytes are read by the judge.
        """
        reply = self._connection.ask({"op": "thread_memory", "library": name}, deadline_s)
        address, size = self._transfer.parse(_SPAN, reply, "span")
        self._connection.rest()
        taken = read_memory(self.pid, address, size) if self.reads_frozen and address and size else None
        return None if taken is None else taken.numpy().tobytes()

    def release(self, *, deadline_s: float = 30.0) -> None:
        """Drop every argument set and every kept output; outputs are poisoned before they are freed."""
        self._connection.ask({"op": "release"}, deadline_s)
        self._calls.clear()
        self._sets.clear()
        if self._loan is not None:
            self._loan.release()
        self._connection.rest()

    def _snapshots(self, call: _Call) -> list[Snapshot]:
        if not (self.reads_frozen or call.on_device) or not call.outputs:
            return []
        if not self._connection.freezer.frozen:
            self._connection.rest()
        snapshots = self._transfer.snapshots(call.places, call.outputs)
        found = all(snapshot.raw is not None for snapshot in snapshots)
        return snapshots if found or not call.on_device else []

    def _facts(self, message: Message, deadline: float) -> tuple[OutputFact, ...]:
        reply = self._connection.ask(message, max(0.0, deadline - time.monotonic()))
        return self._transfer.parse(_FACTS, reply, "facts")

    def _copied(
        self, index: int, deadline: float, declared: tuple[TensorSpec, ...]
    ) -> tuple[tuple[OutputFact, ...], tuple[Tensor, ...]]:
        """Let the worker copy the outputs itself."""
        reply = self._transfer.copied_out({"op": "fetch", "index": index}, deadline, declared)
        facts = self._transfer.parse(_FACTS, reply, "facts")
        offsets = self._transfer.parse(OFFSETS, reply, "offsets")
        return facts, self._transfer.take([(f.shape, f.dtype) for f in facts], offsets)

    def _map(self, arena: Arena, deadline_s: float) -> None:
        if arena.number not in self._mapped:
            message: Message = {"op": "map", "arena": arena.number, "bytes": arena.size_bytes}
            self._connection.ask(message, deadline_s, (arena.descriptor,))
            self._mapped.add(arena.number)

    def _unmap(self, arena: Arena) -> None:
        self._mapped.discard(arena.number)
        if self.alive:
            self._connection.ask({"op": "unmap", "arena": arena.number}, _STATE_DEADLINE_S)

    @contextmanager
    def _room(self, size_bytes: int, deadline_s: float) -> Iterator[Arena]:
        """Lend the memory in which this worker finds its next state: the same again, as new pages take longer to make
        than to fill. It is replaced where it is too small, and given back after a large state."""
        arena = self._state_memory
        if arena is None or arena.size_bytes < size_bytes:
            self._forget_state_memory()
            arena = self._state_memory = Arena(size_bytes)
        arena.reset()
        self._map(arena, deadline_s)
        try:
            yield arena
        finally:
            if size_bytes > _MOST_STATE_BYTES:
                self._forget_state_memory()

    def _forget_state_memory(self) -> None:
        if self._state_memory is not None:
            self._unmap(self._state_memory)
            self._state_memory.close()
            self._state_memory = None
