"""The two things that move, as functions with gradients: blocks of keys around rings, and heads for rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ._blocks import Block, merged
from ._links import Links

T = torch.Tensor
Visit = Callable[[tuple[int, ...], list[T], list[T]], list[T]]
"""Of the place that a block comes from, its keys and values, and what is summed for it: what is then summed."""


@dataclass(frozen=True)
class Rings:
    """The way of blocks: along the axes `axes` of the links, around the last of them first."""

    links: Links
    axes: tuple[int, ...]

    def around(self, block: list[T], sums: list[T], visit: Visit) -> list[T]:
        """Bring each block to every process; return the sums of this one's own block, which travel with it."""
        return self._around(0, (), block, sums, visit)

    def _around(
        self, level: int, steps: tuple[int, ...], block: list[T], sums: list[T], visit: Visit
    ) -> list[T]:
        if level == len(self.axes):
            sizes = [self.links.sizes[axis] for axis in self.axes]
            here = [self.links.place[axis] for axis in self.axes]
            return visit(tuple((p - s) % n for p, s, n in zip(here, steps, sizes, strict=True)), block, sums)
        axis = self.axes[level]
        for step in range(self.links.sizes[axis]):
            sums = self._around(level + 1, (*steps, step), block, sums, visit)
            if step + 1 < self.links.sizes[axis]:
                block = self.links.shift(block, axis)
            if sums:
                sums = self.links.shift(sums, axis)
        return sums


def applied(function: type[torch.autograd.Function], *arguments: object) -> T:
    """Return what a function with a gradient gives."""
    apply: Any = function.apply
    found: T = apply(*arguments)
    return found


class OverRings(torch.autograd.Function):
    """Attention of this process's rows to the keys of all, block by block."""

    @staticmethod
    def forward(
        ctx: Any, q: T, k: T, v: T, rings: Rings, block_from: Callable[[tuple[int, ...]], Block]
    ) -> T:
        """Return the results; `block_from` says how rows see the keys that come from a place."""
        wide = torch.promote_types(q.dtype, torch.float32)
        found = [
            (
                q.new_zeros(*q.shape[:3], v.shape[3], dtype=wide),
                q.new_full(q.shape[:3], float("-inf"), dtype=wide),
            )
        ]

        def visit(place: tuple[int, ...], block: list[T], sums: list[T]) -> list[T]:
            at = block_from(place)
            if not at.hidden:
                found[0] = merged(found[0], at.run(q, *block))
            return sums

        rings.around([k, v], [], visit)
        out, lse = found[0][0].to(q.dtype), found[0][1]
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.rings, ctx.block_from = rings, block_from
        return out

    @staticmethod
    def backward(ctx: Any, slope: T) -> tuple[T | None, ...]:
        """Return the gradients of q, k and v; those of keys and values travel with their blocks."""
        q, k, v, out, lse = ctx.saved_tensors
        slope, dq = slope.contiguous(), torch.zeros_like(q, dtype=lse.dtype)

        def visit(place: tuple[int, ...], block: list[T], sums: list[T]) -> list[T]:
            at = ctx.block_from(place)
            if at.hidden:
                return sums
            own, *more = at.back(slope, q, *block, out, lse)
            dq.add_(own)
            return [x + y for x, y in zip(sums, more, strict=True)]

        dk, dv = ctx.rings.around([k, v], [torch.zeros_like(x, dtype=lse.dtype) for x in (k, v)], visit)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


class OverAll(torch.autograd.Function):
    """Attention of this process's rows to the keys of all, which everyone is sent."""

    @staticmethod
    def forward(ctx: Any, q: T, k: T, v: T, links: Links, block: Block) -> T:
        """Return the results; keys lie in the order of the processes."""
        everyone = [torch.cat(links.exchange([x] * links.sizes[0], 0), 2) for x in (k, v)]
        out, lse = block.run(q, *everyone)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.links, ctx.block = links, block
        return out

    @staticmethod
    def backward(ctx: Any, slope: T) -> tuple[T | None, ...]:
        """Return the gradients; keys and values are gathered again, not kept."""
        q, k, v, out, lse = ctx.saved_tensors
        many = ctx.links.sizes[0]
        everyone = [torch.cat(ctx.links.exchange([x] * many, 0), 2) for x in (k, v)]
        dq, *rest = ctx.block.back(slope.contiguous(), q, *everyone, out, lse)
        dk, dv = (torch.stack(ctx.links.exchange(x.chunk(many, 2), 0)).sum(0) for x in rest)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


class Swapped(torch.autograd.Function):
    """Rows of all heads for all rows of some heads (`split` is the axis of heads, `join` that of rows), or back."""

    @staticmethod
    def forward(ctx: Any, x: T, links: Links, axis: int, split: int, join: int) -> T:
        """Return the parts of `split` that belong to this process, joined along `join`."""
        ctx.how = (links, axis, join, split)
        return swapped(x, links, axis, split, join)

    @staticmethod
    def backward(ctx: Any, slope: T) -> tuple[T | None, ...]:
        """Return the gradient, which goes the other way."""
        return swapped(slope, *ctx.how), None, None, None, None


def swapped(x: T, links: Links, axis: int, split: int, join: int) -> T:
    """Send each process on an axis its part of `split`; return what comes, joined along `join`."""
    return torch.cat(links.exchange(x.chunk(links.sizes[axis], split), axis), join)
