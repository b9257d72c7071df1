"""What every mask spec is: a predicate, ranges of keys, an area, a class for each tile."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import torch

from .._core import refuse

EMPTY, PARTIAL, FULL = 0, 1, 2
"""Classes of a tile: no pair of it is allowed, some are, all are."""
T = torch.Tensor
NAME = "attention.masks"


@dataclass(frozen=True)
class Mask:
    """What a spec is: `allows` is the predicate, `pairs` says the same as ranges of keys; the rest follows."""

    by_value: ClassVar[bool] = False
    """Whether specs that are equal mask the same for ever: all that they hold are numbers."""
    _kept: dict[tuple[int, int, torch.device], T] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def allows(self, q: T, k: T) -> T:
        """Return whether positions q see keys k, elementwise with broadcasting."""
        raise NotImplementedError

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:
        """Return ranges [begin, end) of the keys that positions q see; empty where begin is not below end."""
        raise NotImplementedError

    def check(self, rows: int, keys: int) -> None:
        """Raise for sizes that the spec is not for."""

    def ranges(self, rows: int, keys: int, device: torch.device | None = None) -> T:
        """Return (rows, ranges, 2) or (heads, rows, ranges, 2) int32: begins and ends of the keys that each row sees.

        They are kept for each size and device; the processor's by default.

        Example:
            >>> from kernelwright.ops.attention.masks import Causal
            >>> Causal().ranges(2, 3).tolist()
            [[[0, 2]], [[0, 3]]]
        """
        device = device or torch.device("cpu")
        if torch.compiler.is_compiling():
            return self._ranges(rows, keys).to(device)
        if self.by_value:
            return _of_equal(self, rows, keys, device)
        if (rows, keys, device) not in self._kept:
            self._kept[rows, keys, device] = self._ranges(rows, keys).to(device)
        return self._kept[rows, keys, device]

    def _ranges(self, rows: int, keys: int) -> T:
        self.check(rows, keys)
        q = torch.arange(keys - rows, keys)
        ends = [torch.as_tensor(x).expand(rows) for pair in self.pairs(q, keys) for x in pair]
        return torch.stack(ends, 1).clamp(0, keys).to(torch.int32).reshape(rows, len(ends) // 2, 2)

    def allowed(self, rows: int, keys: int) -> T:
        """Return the predicate of every pair: (rows, keys) bool, or one for each head.

        Example:
            >>> from kernelwright.ops.attention.masks import Causal
            >>> Causal().allowed(2, 3).tolist()
            [[True, True, False], [True, True, True]]
        """
        self.check(rows, keys)
        return self.allows(torch.arange(keys - rows, keys)[:, None], torch.arange(keys)[None])

    def area(self, rows: int, keys: int) -> int:
        """Return how many pairs are allowed, of all heads together; forward takes 4 * area * columns flops a head.

        Example:
            >>> from kernelwright.ops.attention.masks import Causal
            >>> Causal().area(4, 4)
            10
        """
        begin, end = _disjoint(self.ranges(rows, keys))
        return int((end - begin).clamp(min=0).sum())

    def classes(self, rows: int, keys: int, tile: tuple[int, int] = (128, 128)) -> T:
        """Return the class of each tile: (tiles of rows, tiles of keys) int8, or one such for each head.

        Example:
            >>> from kernelwright.ops.attention.masks import Causal
            >>> Causal().classes(4, 4, (2, 2)).tolist()
            [[1, 0], [2, 1]]
        """
        begin, end = _disjoint(self.ranges(rows, keys))
        first = torch.arange(0, keys, tile[1])
        last = (first + tile[1]).clamp(max=keys)
        seen = (torch.minimum(end[..., None], last) - torch.maximum(begin[..., None], first)).clamp(min=0)
        seen = seen.sum(-2)
        spare = -rows % tile[0]
        seen = torch.nn.functional.pad(seen, (0, 0, 0, spare))
        seen = seen.reshape(*seen.shape[:-2], -(-rows // tile[0]), tile[0], seen.shape[-1]).sum(-2)
        highs = torch.full((seen.shape[-2],), tile[0])
        if spare:
            highs[-1] -= spare
        whole = highs[:, None] * (last - first)
        return torch.where(seen == 0, EMPTY, torch.where(seen == whole, FULL, PARTIAL)).to(torch.int8)


@lru_cache(maxsize=32)
def _of_equal(mask: Mask, rows: int, keys: int, device: torch.device) -> T:
    """Return the ranges of all specs that are equal, which nobody writes to."""
    return mask._ranges(rows, keys).to(device)


def _disjoint(ranges: T) -> tuple[T, T]:
    """Return begins and ends that cover each key of a row once."""
    begin, end = ranges.long().unbind(-1)
    end = torch.maximum(begin, end)
    begin, order = begin.sort(-1)
    end = end.gather(-1, order).cummax(-1).values
    before = torch.nn.functional.pad(end[..., :-1], (1, 0))
    return torch.maximum(begin, before), end


def count(mask: Mask, name: str, given: object, least: int) -> None:
    """Refuse what is no whole number from `least` on."""
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        refuse(f"{NAME}.{type(mask).__name__}", name, repr(given), f"a whole number from {least}")
