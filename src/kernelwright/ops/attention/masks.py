"""Masks as specs: which keys each row sees, as a predicate, ranges of keys, an area, and a class for each tile.

A spec knows nothing of tensors' sizes but what it is told: `rows` queries and `keys` keys. Query i stands at position
`i + keys - rows`, so that the last query stands at the last key. Masks of documents are for as many rows as keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import torch

from .._core import refuse
from ._mask import EMPTY, FULL, NAME, PARTIAL, Mask, count

__all__ = [
    "EMPTY",
    "FULL",
    "PARTIAL",
    "BlockCausalDocument",
    "BlockSparse",
    "Causal",
    "CausalBlockwise",
    "Dense",
    "Document",
    "Full",
    "GlobalSlidingWindow",
    "Mask",
    "PrefixLM",
    "PrefixLMDocument",
    "ShareQuestion",
    "SlidingWindow",
]
T = torch.Tensor


@dataclass(frozen=True)
class Full(Mask):
    """Every key."""

    by_value = True

    def allows(self, q: T, k: T) -> T:
        """Return whether q sees k: always."""
        return torch.ones_like(q + k, dtype=torch.bool)

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return one range of all keys."""
        return [(0, keys)]


@dataclass(frozen=True)
class Causal(Mask):
    """No key after the query: `k <= q`."""

    by_value = True

    def allows(self, q: T, k: T) -> T:
        """Return `k <= q`."""
        return k <= q

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return [0, q]."""
        return [(0, q + 1)]


@dataclass(frozen=True)
class SlidingWindow(Mask):
    """Keys at most `window` away: `|q - k| <= window`, and with `causal` none after the query."""

    by_value = True
    window: int
    causal: bool = False

    def __post_init__(self) -> None:
        """Refuse a negative window."""
        count(self, "window", self.window, 0)

    def allows(self, q: T, k: T) -> T:
        """Return `-window <= k - q <= window`, or `<= 0`."""
        return (k >= q - self.window) & (k <= q + (0 if self.causal else self.window))

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return the window."""
        return [(q - self.window, q + 1 + (0 if self.causal else self.window))]


@dataclass(frozen=True)
class GlobalSlidingWindow(Mask):
    """A window, and the first `2 * window` positions, which see all and are seen by all."""

    by_value = True
    window: int

    def __post_init__(self) -> None:
        """Refuse a negative window."""
        count(self, "window", self.window, 0)

    def allows(self, q: T, k: T) -> T:
        """Return `|q - k| <= w or q < 2 * w or k < 2 * w`."""
        return ((q - k).abs() <= self.window) | (q < 2 * self.window) | (k < 2 * self.window)

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:
        """Return the first keys and the window."""
        early = q < 2 * self.window
        first = torch.where(early, keys, 2 * self.window)
        return [(0, first), (q - self.window, torch.where(early, 0, q + self.window + 1))]


@dataclass(frozen=True)
class PrefixLM(Mask):
    """Causal, and the first `prefix` keys are seen by all: `k < prefix or k <= q`."""

    by_value = True
    prefix: int

    def __post_init__(self) -> None:
        """Refuse a negative prefix."""
        count(self, "prefix", self.prefix, 0)

    def allows(self, q: T, k: T) -> T:
        """Return `k < prefix or k <= q`."""
        return (k < self.prefix) | (k <= q)

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return one range."""
        return [(0, (q + 1).clamp(min=self.prefix))]


@dataclass(frozen=True)
class _Documents(Mask):
    """A mask of documents that lie one after another; `lengths` sum to the number of keys."""

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse what are no lengths."""
        if not isinstance(self.lengths, tuple) or not self.lengths:
            refuse(NAME, "lengths", repr(self.lengths), "a tuple of lengths of documents")
        for length in self.lengths:
            count(self, "lengths", length, 0)

    def check(self, rows: int, keys: int) -> None:
        """Raise unless rows and keys are as many as the documents have."""
        if not rows == keys == sum(self.lengths):
            given = f"of {sum(self.lengths)} positions"
            refuse(NAME, "lengths", given, f"as many as there are rows, {rows}, and keys, {keys}")

    def of(self, position: T) -> tuple[T, T, T]:
        """Return number, begin and end of the document of each position."""
        sizes = torch.tensor(self.lengths)
        ends = sizes.cumsum(0)
        number = torch.searchsorted(ends, position, right=True)
        return number, (ends - sizes)[number], ends[number]


@dataclass(frozen=True)
class Document(_Documents):
    """Keys of the query's own document; with `causal` none after the query."""

    causal: bool = False

    def allows(self, q: T, k: T) -> T:
        """Return whether q and k are of one document."""
        same = self.of(q)[0] == self.of(k)[0]
        return same & (k <= q) if self.causal else same

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return the document."""
        _, begin, end = self.of(q)
        return [(begin, q + 1 if self.causal else end)]


@dataclass(frozen=True)
class PrefixLMDocument(_Documents):
    """Causal within documents, and the first `prefix` keys of a document are seen by all of it."""

    prefix: int = 0

    def allows(self, q: T, k: T) -> T:
        """Return `same document and (k - begin < prefix or k <= q)`."""
        (mine, *_), (other, begin, _) = self.of(q), self.of(k)
        return (mine == other) & ((k - begin < self.prefix) | (k <= q))

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return one range."""
        _, begin, end = self.of(q)
        return [(begin, torch.minimum(end, torch.maximum(q + 1, begin + self.prefix)))]


@dataclass(frozen=True)
class ShareQuestion(_Documents):
    """Causal within documents, and all see the first document, the question."""

    def allows(self, q: T, k: T) -> T:
        """Return `k <= q and (same document or k in the first)`."""
        mine, other = self.of(q)[0], self.of(k)[0]
        return (k <= q) & ((mine == other) | (k < self.lengths[0]))

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return the question, and the answer so far."""
        _, begin, _ = self.of(q)
        return [(0, torch.where(begin > 0, self.lengths[0], 0)), (begin, q + 1)]


@dataclass(frozen=True)
class CausalBlockwise(_Documents):
    """Causal within documents, and the last document sees everything before it."""

    def allows(self, q: T, k: T) -> T:
        """Return `k <= q and (same document or q in the last)`."""
        mine, other = self.of(q)[0], self.of(k)[0]
        return (k <= q) & ((mine == other) | (mine == len(self.lengths) - 1))

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return one range."""
        number, begin, _ = self.of(q)
        return [(torch.where(number == len(self.lengths) - 1, 0, begin), q + 1)]


@dataclass(frozen=True)
class BlockCausalDocument(_Documents):
    """Keys of the document up to the end of the query's block: `k < (q // block + 1) * block`."""

    block: int = 1

    def __post_init__(self) -> None:
        """Refuse a block without positions."""
        super().__post_init__()
        count(self, "block", self.block, 1)

    def allows(self, q: T, k: T) -> T:
        """Return `same document and k < (q // block + 1) * block`."""
        return (self.of(q)[0] == self.of(k)[0]) & (k < (q // self.block + 1) * self.block)

    def pairs(self, q: T, keys: int) -> list[tuple[T | int, T | int]]:  # noqa: ARG002
        """Return one range."""
        _, begin, end = self.of(q)
        return [(begin, torch.minimum(end, (q // self.block + 1) * self.block))]


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """The pairs of a tensor: (rows, keys) bool, or (heads, rows, keys)."""

    table: T

    def __post_init__(self) -> None:
        """Refuse what is no table of pairs."""
        if self.table.dtype is not torch.bool or self.table.dim() not in (2, 3):
            given = f"of shape {tuple(self.table.shape)}, {self.table.dtype}"
            refuse(NAME, "table", given, "(rows, keys) or (heads, rows, keys), torch.bool")

    def check(self, rows: int, keys: int) -> None:
        """Raise unless the table has these sizes."""
        if self.table.shape[-2:] != (rows, keys):
            refuse(NAME, "table", f"of shape {tuple(self.table.shape)}", f"(..., {rows}, {keys})")

    def allowed(self, rows: int, keys: int) -> T:
        """Return the table."""
        self.check(rows, keys)
        return self.table

    def _ranges(self, rows: int, keys: int) -> T:
        self.check(rows, keys)
        return runs(self.table, torch.arange(keys + 1, device=self.table.device))


@dataclass(frozen=True, eq=False)
class BlockSparse(Mask):
    """Whole blocks of pairs, of one size or of several.

    Args:
        table: (row blocks, key blocks) bool, or (heads, row blocks, key blocks).
        row_lengths: Rows of each block: their number, or one for all.
        key_lengths: Keys of each block, likewise.
    """

    table: T
    row_lengths: tuple[int, ...] | int
    key_lengths: tuple[int, ...] | int
    one: ClassVar[str] = "one length, or as many as there are blocks"

    def __post_init__(self) -> None:
        """Refuse what is no table of blocks."""
        Dense(self.table)
        for name, lengths, blocks in (
            ("row_lengths", self.row_lengths, self.table.shape[-2]),
            ("key_lengths", self.key_lengths, self.table.shape[-1]),
        ):
            for length in (lengths,) if isinstance(lengths, int) else lengths:
                count(self, name, length, 1)
            if not isinstance(lengths, int) and len(lengths) != blocks:
                refuse(NAME, name, f"{len(lengths)} lengths", f"{blocks}, the blocks of table, or one length")

    def _edges(self, axis: int, size: int) -> T:
        lengths = (self.row_lengths, self.key_lengths)[axis]
        blocks = self.table.shape[axis - 2]
        each: Sequence[int] = [lengths] * blocks if isinstance(lengths, int) else lengths
        edges = torch.tensor([0, *accumulate(each)], device=self.table.device)
        most = int(edges[-1])
        if not (most == size or (isinstance(lengths, int) and most - lengths < size <= most)):
            name = ("row_lengths", "key_lengths")[axis]
            refuse(NAME, name, f"{most} positions in all", f"{size}, as there are")
        return edges.clamp(max=size)

    def allowed(self, rows: int, keys: int) -> T:
        """Return the table, a pair for each pair of positions."""
        high, wide = self._edges(0, rows).diff(), self._edges(1, keys).diff()
        return self.table.repeat_interleave(high, -2).repeat_interleave(wide, -1)

    def _ranges(self, rows: int, keys: int) -> T:
        return runs(self.table, self._edges(1, keys)).repeat_interleave(self._edges(0, rows).diff(), -3)


def runs(table: T, edges: T) -> T:
    """Return the runs of a table's rows: (..., rows, runs, 2) int32, from edge to edge; what is not there is empty.

    Example:
        >>> runs(torch.tensor([[True, True, False, True]]), torch.arange(5)).tolist()
        [[[0, 2], [3, 4]]]
    """
    steps = torch.nn.functional.pad(table.to(torch.int8), (1, 1)).diff(dim=-1)
    number = (steps == 1).cumsum(-1) - 1
    most = max(1, int(number.max()) + 1) if number.numel() else 1
    found = table.new_zeros((*table.shape[:-1], most, 2), dtype=torch.int32)
    for end, which in enumerate((1, -1)):
        place = (steps == which).nonzero(as_tuple=True)
        number = (steps == which).cumsum(-1) - 1
        found[(*place[:-1], number[place], torch.tensor(end, device=table.device))] = edges[place[-1]].to(
            torch.int32
        )
    return found
