"""ContextParallel: a scheme on a group of processes, which deals sequences and attends over them."""

import torch
import torch.distributed as dist

from ..._core import refuse
from .. import masks
from .._functions import ranges_of
from ._blocks import Block, cut, rows_of
from ._functions import OverAll, OverRings, Rings, Swapped, applied
from ._links import Links

T = torch.Tensor
SCHEMES = ("ring", "double_ring", "all_gather", "ulysses", "usp")
"""Names of schemes."""


class ContextParallel:
    """Attention over sequences that are dealt to the processes of a group.

    Args:
        scheme: `ring`, `double_ring`, `all_gather`, `ulysses` or `usp`.
        inner: Of `double_ring`, processes of an inner ring; of `usp`, those that exchange heads. They are neighbours by
            rank; their number divides the group's. The other schemes have none.
        group: Of `torch.distributed`; all processes by default.

    Raises:
        ArgumentError: the scheme is unknown, or `inner` does not fit it.

    Example:
        >>> import os, tempfile, torch.distributed as dist
        >>> store = dist.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
        >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> parallel = ContextParallel("ring")
        >>> q, k, v = (parallel.deal(torch.randn(1, 2, 8, 4)) for _ in range(3))
        >>> parallel.attention(q, k, v, masks.Causal()).shape
        torch.Size([1, 2, 8, 4])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self, scheme: str, *, inner: int | None = None, group: dist.ProcessGroup | None = None
    ) -> None:
        name, many = "ContextParallel", dist.get_world_size(group)
        if scheme not in SCHEMES:
            refuse(name, "scheme", repr(scheme), f"one of {', '.join(SCHEMES)}")
        nested = scheme in ("double_ring", "usp")
        if (inner is not None) != nested or (
            nested and (not isinstance(inner, int) or inner < 1 or many % inner)
        ):
            wanted = (
                f"a divisor of {many}, the processes" if nested else "None: only double_ring and usp have one"
            )
            refuse(name, "inner", repr(inner), wanted)
        self.scheme, self.many = scheme, many
        heads = many if scheme == "ulysses" else int(inner or 1) if scheme == "usp" else 1
        around = many // heads
        axes = [around // int(inner or 1), int(inner or 1)] if scheme == "double_ring" else [around]
        self.links = Links((*axes, heads), group)
        self.rings = Rings(self.links, tuple(range(len(axes))))
        self.heads, self.around = heads, around

    @property
    def sent_bytes(self) -> int:
        """Bytes that this process has sent."""
        return self.links.sent_bytes

    def _parts(self, ring: int, length: int) -> list[tuple[int, int]]:
        """Return the parts of the sequence that the processes at one place of the rings share."""
        step, last = length // (2 * self.around), 2 * self.around - 1 - ring
        return [(ring * step, (ring + 1) * step), (last * step, (last + 1) * step)]

    def rows(self, length: int) -> T:
        """Return the places in a sequence of this process's rows.

        Raises:
            ArgumentError: the processes cannot share so many rows alike.
        """
        unit = 2 * self.many if self.heads > 1 else 2 * self.around
        if length % unit:
            refuse(
                "ContextParallel",
                "the length",
                length,
                f"a multiple of {unit}, for {self.many} processes by {self.scheme}",
            )
        ring, head = divmod(self.links.rank, self.heads)
        return rows_of(self._parts(ring, length)).chunk(self.heads)[head]

    def deal(self, x: T, axis: int = 2) -> T:
        """Return this process's rows of a whole sequence.

        Raises:
            ArgumentError: the processes cannot share so many rows alike.
        """
        return x.index_select(axis, self.rows(x.shape[axis]).to(x.device))

    def collect(self, x: T, axis: int = 2) -> T:
        """Return the whole sequence of the rows that all processes have; without a gradient."""
        length = x.shape[axis] * self.many
        parts = [torch.empty_like(x) for _ in range(self.many)]
        dist.all_gather(parts, x.detach().contiguous(), group=self.links.group)
        places = torch.cat([rows_of(self._parts(ring, length)) for ring in range(self.around)]).to(x.device)
        return torch.cat(parts, axis).index_select(axis, places.argsort())

    def attention(
        self, q: T, k: T, v: T, mask: "masks.Mask | None" = None, *, scale: float | None = None
    ) -> T:
        """Return attention of this process's queries to the keys of all.

        Args:
            q: (batch, heads, rows, inner), the rows that `deal` gave this process; as for `attention`.
            k: (batch, kv heads, rows, inner).
            v: (batch, kv heads, rows, columns).
            mask: A spec of `masks` over the whole sequence; None where all is seen.
            scale: What scores are multiplied by; 1 / sqrt(inner) by default.

        Returns:
            (batch, heads, rows, columns), of q's dtype.

        Raises:
            ArgumentError: shapes do not fit, or heads cannot be shared.
        """
        name = "ContextParallel.attention"
        for what, x in (("q", q), ("k", k), ("v", v)):
            if not isinstance(x, T) or x.dim() != 4:
                given = f"of shape {tuple(x.shape)}" if isinstance(x, T) else f"a {type(x).__name__}"
                refuse(name, what, given, "(batch, heads, rows, columns)")
        if q.shape[2] != k.shape[2] or k.shape[:3] != v.shape[:3] or q.shape[1] % max(k.shape[1], 1):
            refuse(
                name,
                "k",
                f"of shape {tuple(k.shape)}, v {tuple(v.shape)}",
                f"as many rows as q, {tuple(q.shape)}, and heads that divide its own",
            )
        if k.shape[1] % self.heads:
            refuse(
                name,
                "k",
                f"of {k.shape[1]} heads",
                f"a multiple of {self.heads}, the processes that share heads",
            )
        if mask is not None and not isinstance(mask, masks.Mask):
            refuse(name, "mask", f"a {type(mask).__name__}", "a spec of attention.masks, or None")
        length = q.shape[2] * self.many
        self.rows(length)
        factor = max(1, q.shape[3]) ** -0.5 if scale is None else float(scale)
        last = len(self.links.sizes) - 1
        if self.heads > 1:
            q, k, v = (applied(Swapped, x, self.links, last, 1, 2) for x in (q, k, v))
        out = self._over(q, k, v, mask, length, factor)
        if self.heads > 1:
            out = applied(Swapped, out, self.links, last, 2, 1)
        return out

    def _over(self, q: T, k: T, v: T, mask: "masks.Mask | None", length: int, scale: float) -> T:
        whole = q.new_empty(1, 1, length, 0)
        ranges = ranges_of(mask, whole, whole)
        ring = self.links.rank // self.heads
        if ranges is not None:
            ranges = ranges[:, :, rows_of(self._parts(ring, length)).to(ranges.device)]
            if ranges.shape[1] > 1:
                many, own = q.shape[1], self.links.rank % self.heads
                ranges = ranges[:, own * many : (own + 1) * many]
        if self.scheme == "all_gather":
            parts = [part for r in range(self.around) for part in self._parts(r, length)]
            block = Block(None if ranges is None else cut(ranges, parts), scale)
            return applied(OverAll, q, k, v, self.links, block)
        sizes = self.links.sizes[:-1]

        def block_from(place: tuple[int, ...]) -> Block:
            there = 0
            for at, size in zip(place, sizes, strict=True):
                there = there * size + at
            return Block(None if ranges is None else cut(ranges, self._parts(there, length)), scale)

        return applied(OverRings, q, k, v, self.rings, block_from)

    def expected_bytes(self, q: T, k: T, v: T, *, backward: bool = False) -> int:
        """Return what a process sends for the attention of such rows, by the scheme's formula.

        Of r processes around rings, h each sharing heads, rows for heads cost `(h - 1) / h` of q, k, v and the results,
        and blocks go `r - 1` steps; all to all is as much. On the way back all of this moves again, and gradients of
        keys and values, in float32 or wider, go a step around each ring more than their blocks did.

        Source: Jacobs et al., DeepSpeed Ulysses (2023), section 3.2; Liu et al., Ring attention (2023), section 3; Gu
        et al., LoongTrain (2024), section 4; derived here for the way back.
        """
        size, h, r = q.element_size(), self.heads, self.around
        rows, of_q = q.shape[0] * q.shape[2], q.shape[1] * (q.shape[3] + v.shape[3])
        of_kv = k.shape[1] * (k.shape[3] + v.shape[3])
        turned = rows * (of_q + of_kv) * (h - 1) // h * size
        block = rows * of_kv  # of h times the rows, and a part of the heads
        sent = turned + (r - 1) * block * size
        if not backward:
            return sent
        wide = torch.promote_types(q.dtype, torch.float32).itemsize
        if self.scheme == "all_gather":
            return sent + (r - 1) * block * wide
        outer = self.links.sizes[0] if self.scheme == "double_ring" else 0
        inner = self.links.sizes[1] if self.scheme == "double_ring" else r
        hops = (
            (outer * (inner if inner > 1 else 0) + (outer if outer > 1 else 0))
            if outer
            else (r if r > 1 else 0)
        )
        return sent + hops * block * wide
