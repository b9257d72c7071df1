"""Place the bytes of timed calls in memory: fresh addresses for every block, the same bytes for every variant.

Covers: addresses that differ from block to block, inputs that are not available before the calls are announced and
are written again for each variant, caches flushed if required.
Does not cover: physical pages, which the operating system chooses.
"""

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import cast

import torch

from ..devices import Device
from ..records import TensorSpec
from ..sandbox import Argument, Pool, Slot

_ROOM_BYTES, _GAP_BYTES = 1 << 20, 1 << 14
_MOST_SKEW = 64
"""Cache lines by which a tensor's address is shifted."""


class Layout:
    """The arena that the variants of a block share, and its current contents."""

    def __init__(self, pool: Pool, device: Device, random: Random) -> None:
        self._pool, self._device, self._random = pool, device, random
        self._arena, self._late = pool.arena, True
        self._sets: list[list[object]] = []
        self._bound: list[tuple[Argument, ...]] = []
        self._views: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        """The tensors of the sets, and where they lie in the arena."""
        self._flush: torch.Tensor | None = None

    def place(self, sets: list[list[object]], *, late: bool = True) -> list[tuple[Argument, ...]]:
        """Return the inputs as arguments to bind, at new addresses if they are new; all zero until `fill`.

        Not `late`, the content is there at once: for a GPU on which binding copies, and the worker cannot be filled.
        """
        if self._flush is None and self._device.kind != "cpu":
            self.flush_caches()  # what a first time loads and allocates might wait for whatever runs on the device
        if self._sets is not sets:
            self._lay_out(sets)
        self._late = late
        if not late:
            self._write()
        elif self._views:
            torch._foreach_zero_(self._views)
        return self._bound

    def fill(self) -> None:
        """Write the content of the inputs placed last, unless it is there."""
        if self._late:
            self._write()

    def flush_caches(self) -> None:
        """Read twice the size of the last-level cache: evicts inputs, the code's data and dirty lines."""
        if self._flush is None:
            count = max(1, 2 * self._device.last_level_bytes // 4)
            self._flush = torch.ones(count, device=self._device.torch_device)
        self._flush.sum()
        if self._flush.is_cuda:  # a kernel of the judge's may be on another stream, and goes on
            torch.cuda.current_stream(self._flush.device).synchronize()

    def _lay_out(self, sets: list[list[object]]) -> None:
        tensors = [v for values in sets for v in values if isinstance(v, torch.Tensor)]
        needed = _ROOM_BYTES + sum(2 * t.nbytes + _GAP_BYTES for t in tensors)
        if needed > self._arena.size_bytes:
            self._arena = self._pool.new_arena(needed)
        self._arena.reset()
        self._sets, self._bound = sets, [self._placed(values) for values in sets]
        pairs = [self._arena.pair(slot, value) for slot, value in self._slots()]
        self._views, self._values = [view for view, _ in pairs], [value for _, value in pairs]

    def _write(self) -> None:
        if self._views:
            torch._foreach_copy_(self._views, self._values)

    def _placed(self, values: Sequence[object]) -> tuple[Argument, ...]:
        skew = 64 * self._random.randrange(_MOST_SKEW)
        return tuple(
            self._arena.reserve(v, skew) if isinstance(v, torch.Tensor) else cast(Argument, v) for v in values
        )

    def _slots(self) -> Iterator[tuple[Slot, torch.Tensor]]:
        for values, bound in zip(self._sets, self._bound, strict=True):
            for value, slot in zip(values, bound, strict=True):
                if isinstance(slot, Slot) and isinstance(value, torch.Tensor):
                    yield slot, value


def bytes_of(specs: Sequence[object]) -> int:
    """Count the bytes of the tensors among arguments or outputs."""
    return sum(
        math.prod(s.shape) * getattr(torch, s.dtype).itemsize for s in specs if isinstance(s, TensorSpec)
    )
