"""Attention of some rows to some keys of a sequence: masks cut to them, results of several blocks of keys made one."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .._ops import forward, gradients

T = torch.Tensor
Parts = Sequence[tuple[int, int]]
"""Ranges [begin, end) of a sequence, which lie one after another in a block."""


def rows_of(parts: Parts) -> T:
    """Return the places in the sequence of a block's rows.

    Example:
        >>> rows_of([(0, 2), (6, 8)]).tolist()
        [0, 1, 6, 7]
    """
    return torch.cat([torch.arange(begin, end) for begin, end in parts])


def cut(ranges: T, parts: Parts) -> T:
    """Return ranges of a sequence's keys as ranges of a block's: (..., rows, ranges * parts, 2) int32.

    Example:
        >>> cut(torch.tensor([[[0, 7]]], dtype=torch.int32), [(0, 2), (6, 8)]).tolist()
        [[[0, 2], [2, 3]]]
    """
    found, before = [], 0
    for begin, end in parts:
        found.append(ranges.clamp(begin, end) - begin + before)
        before += end - begin
    return torch.cat(found, -2).contiguous()


@dataclass(frozen=True)
class Block:
    """Rows against one block of keys, under a mask and a scale."""

    ranges: T | None
    scale: float

    @property
    def hidden(self) -> bool:
        """Whether no row sees any key."""
        return self.ranges is not None and not bool((self.ranges[..., 0] < self.ranges[..., 1]).any())

    def run(self, q: T, k: T, v: T) -> tuple[T, T]:
        """Return results and the log-sum-exp of scores."""
        found: tuple[T, T] = forward(q, k, v, self.ranges, None, None, self.scale, 0.0)
        return found

    def back(self, slope: T, q: T, k: T, v: T, out: T, lse: T) -> tuple[T, T, T]:
        """Return gradients of q, k and v by the results and the log-sum-exp over all blocks."""
        dq, dk, dv, _ = gradients(slope, None, q, k, v, out, lse, self.ranges, None, None, self.scale, 0.0)
        return dq, dk, dv


def merged(first: tuple[T, T], second: tuple[T, T]) -> tuple[T, T]:
    """Return results and log-sum-exp over the keys of both, in the dtype of the log-sum-exp.

    Example:
        >>> one, zero = torch.ones(1, 1), torch.zeros(1)
        >>> out, lse = merged((one, zero), (3 * one, zero))
        >>> out.item(), round(lse.item(), 3)
        (2.0, 0.693)
    """
    (a, left), (b, right) = first, second
    both = torch.logaddexp(left, right)
    dead = both == float("-inf")
    shares = [torch.where(dead, 0.0, (x - both).exp())[..., None] for x in (left, right)]
    return a.to(both.dtype) * shares[0] + b.to(both.dtype) * shares[1], both
