"""Bring tensors from a worker to the judge: read out of its stopped memory, or copied by it into shared memory.

Covers: outputs as they were when the clock stopped (read while nothing of the worker runs); bytes that a
worker says it copied but did not (the shared memory is poisoned before each use); sizes beyond reason.
Does not cover: outputs on a GPU that `_segments` does not find, and machines where reading another process's memory is
refused: those are copied by the worker itself, after it was let go on, and `Pool.layers` does not name `frozen-read`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from ..records import TensorSpec
from ._arena import OutputRegion
from ._channel import Message
from ._connection import Connection
from ._memory import read_alike, read_memory
from ._types import FailureKind, OutputFact, WorkerFailure

OFFSETS = TypeAdapter(tuple[int, ...])
STATE = TypeAdapter(tuple[tuple[str, tuple[int, ...], str], ...])
_PLACES = TypeAdapter(tuple[int | tuple[int, int, int], ...])
_T = TypeVar("_T")
_ROOM = 4
_LEAST_ROOM_BYTES = 16 << 20
_CONJUGATE, _NEGATIVE = 1, 2


@dataclass(frozen=True)
class Snapshot:
    """The bytes of one output, taken while its worker was stopped."""

    raw: Tensor | None
    """Bytes from the first element to the last; none where they could not be read."""
    whole: bool
    """Whether it was said to be contiguous, so that its declared size was read."""
    lazy: int
    """1: conjugate, 2: negative; on being read."""


class OutputTransfer:
    """One worker's way out for tensors."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._region = OutputRegion()
        self.read: Callable[[int, int], Tensor | None] = partial(read_memory, connection.pid)
        """Copies bytes at an address of the stopped worker; none where they cannot be read."""
        self._expected_bytes = self._poisoned_bytes = 0

    def expect(self, outputs: Sequence[TensorSpec]) -> None:
        """Note what calls are expected to return."""
        self._expected_bytes = max(self._expected_bytes, _room_for(outputs))

    def snapshots(self, places: object, outputs: Sequence[TensorSpec]) -> list[Snapshot]:
        """Read what lies at the places that a reply named; the worker must be stopped."""
        said = [places] if isinstance(places, int) else places
        try:
            known = _PLACES.validate_python(said)
        except ValidationError:
            return []
        if len(known) != len(outputs):
            return []
        return [self._snapshot(place, spec) for place, spec in zip(known, outputs, strict=True)]

    def stacked(self, places: Sequence[object], outputs: Sequence[TensorSpec]) -> tuple[Tensor, ...] | None:
        """Read the contiguous outputs of many calls, each stacked along a new first axis; the worker must be stopped.

        Returns:
            None where an output is not contiguous or its bytes cannot be read.
        """
        stacks = []
        for position, spec in enumerate(outputs):
            said = [p[position : position + 1] if isinstance(p, list) else [p] for p in places]
            addresses = [p[0] for p in said if p and isinstance(p[0], int) and 0 <= p[0] < 1 << 63]
            if len(addresses) != len(places):
                return None
            raw = read_alike(self._connection.pid, addresses, spec_bytes(spec))
            if raw is None:
                return None
            dtype: torch.dtype = getattr(torch, spec.dtype)
            stacks.append(raw.flatten().view(dtype).reshape(len(places), *spec.shape))
        return tuple(stacks)

    def interpret(
        self, taken: Sequence[Snapshot], facts: Sequence[OutputFact], outputs: Sequence[TensorSpec]
    ) -> tuple[Tensor, ...] | None:
        """Make tensors of snapshots; none where the facts are not what was declared, so that a copy does.

        Raises:
            WorkerFailure: where the facts are as declared but the bytes were not where the reply said.
        """
        declared = len(facts) == len(outputs) and all(
            f.plain and f.shape == o.shape and f.dtype == o.dtype for f, o in zip(facts, outputs, strict=True)
        )
        if not declared:
            return None
        if len(taken) != len(facts):
            raise self._connection.reject("the reply to the call did not say where the outputs lie")
        return tuple(self._tensor(s, f) for s, f in zip(taken, facts, strict=True))

    def copied_out(self, message: Message, deadline: float, outputs: Sequence[TensorSpec] = ()) -> Message:
        """Ask for tensors through shared memory, which grows to what they need within reason.

        What is asked to hold declared `outputs` is poisoned, and no more: it takes as long for every variant, whatever
        else its worker has returned.
        """
        self._reserve(max(self._expected_bytes, 1), deadline)
        allowed = _ROOM * self._expected_bytes + _LEAST_ROOM_BYTES
        room = _room_for(outputs)
        for _ in range(2):
            self._region.poison(room)
            self._poisoned_bytes = room
            request = {**message, "capacity": room}
            reply = self._connection.ask(request, max(0.0, deadline - time.monotonic()))
            needs = reply.get("needs")
            if not isinstance(needs, int) or needs < 0:
                raise self._connection.reject(f"needs {str(needs)[:40]!r} bytes")
            if needs <= room:
                return reply
            if message["op"] == "fetch" and needs > allowed:
                text = f"the outputs hold {needs} bytes; expected about {self._expected_bytes}"
                raise WorkerFailure(FailureKind.ERROR, text)
            self._reserve(needs, deadline)
            room = needs
        raise self._connection.reject("the outputs grew between two looks")

    def take(
        self, described: Sequence[tuple[tuple[int, ...], str]], offsets: tuple[int, ...]
    ) -> tuple[Tensor, ...]:
        """Copy tensors out of the shared memory."""
        if len(offsets) != len(described):
            raise self._connection.reject(f"{len(described)} tensors at {len(offsets)} places")
        taken = []
        for (shape, name), offset in zip(described, offsets, strict=True):
            dtype = getattr(torch, name, None)
            count = torch.Size(shape).numel() if all(0 <= n < 1 << 62 for n in shape) else -1
            if not isinstance(dtype, torch.dtype) or count < 0 or offset < 0:
                raise self._connection.reject(f"an output of {name[:40]}{list(shape)[:8]} at {offset}")
            if offset + count * dtype.itemsize > self._poisoned_bytes:
                raise self._connection.reject("an output beyond the output region")
            taken.append(self._region.take(offset, shape, dtype))
        return tuple(taken)

    def parse(self, kind: "TypeAdapter[_T]", reply: Message, key: str) -> _T:
        """Read one entry of a reply; what does not fit ends the worker."""
        try:
            return kind.validate_python(reply.get(key))
        except ValidationError as error:
            raise self._connection.reject(f"{key}: {error.errors()[0]['msg'][:200]}") from None

    def close(self) -> None:
        """Close the shared memory."""
        self._region.close()

    def _snapshot(self, place: int | tuple[int, int, int], spec: TensorSpec) -> Snapshot:
        if isinstance(place, int):
            address, size, lazy = place, spec_bytes(spec), 0
        else:
            address, size, lazy = place
        most = _ROOM * self._expected_bytes + _LEAST_ROOM_BYTES
        if not 0 <= size <= most or not 0 <= address < 1 << 63:
            return Snapshot(None, isinstance(place, int), lazy)
        return Snapshot(self.read(address, size), isinstance(place, int), lazy)

    def _tensor(self, snapshot: Snapshot, fact: OutputFact) -> Tensor:
        dtype: torch.dtype = getattr(torch, fact.dtype)
        contiguous = torch.empty(fact.shape, dtype=dtype, device="meta").stride()
        strides = contiguous if snapshot.whole else fact.strides
        reach = 1 + sum((n - 1) * s for n, s in zip(fact.shape, strides, strict=False))
        needs = 0 if 0 in fact.shape else reach * dtype.itemsize
        fits = len(strides) == len(fact.shape) and all(s >= 0 for s in strides)
        same = not snapshot.whole or all(
            n <= 1 or a == b for n, a, b in zip(fact.shape, fact.strides, strides, strict=False)
        )
        if snapshot.raw is None or not fits or not (same or 0 in fact.shape) or needs > snapshot.raw.numel():
            raise self._connection.reject("an output does not lie where the reply to the call said")
        flat = snapshot.raw[:needs].view(dtype)
        tensor = flat.as_strided(fact.shape, strides).contiguous()
        tensor = tensor.conj().resolve_conj() if snapshot.lazy & _CONJUGATE else tensor
        return -tensor if snapshot.lazy & _NEGATIVE else tensor

    def _reserve(self, size_bytes: int, deadline: float) -> None:
        if self._region.reserve(size_bytes):
            message: Message = {"op": "map", "arena": 0, "bytes": self._region.size_bytes}
            remaining = max(0.0, deadline - time.monotonic())
            self._connection.ask(message, remaining, (self._region.descriptor,))


def _room_for(outputs: Sequence[TensorSpec]) -> int:
    """Count the bytes that outputs take side by side."""
    return sum(-(-spec_bytes(o) // 64) * 64 for o in outputs)


def spec_bytes(spec: TensorSpec) -> int:
    """Count the bytes of a contiguous tensor of the spec."""
    dtype: torch.dtype = getattr(torch, spec.dtype)
    return torch.Size(spec.shape).numel() * dtype.itemsize
