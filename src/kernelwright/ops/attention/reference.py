"""References of attention: torch alone, some rows at a time, so that scores are not stored whole."""

from typing import Any

import torch

CHUNK = 1 << 24
"""Most scores that are held at once."""
T = torch.Tensor


def allowed_of(ranges: T, keys: int) -> T:
    """Return which keys rows see: (items, heads, rows, keys) bool of (items, heads, rows, many, 2)."""
    begin = ranges[..., 0].long().clamp(0, keys)
    end = ranges[..., 1].long().clamp(0, keys)
    step = (begin < end).to(torch.int32)
    edges = step.new_zeros((*ranges.shape[:3], keys + 1))
    edges.scatter_add_(-1, begin, step)
    edges.scatter_add_(-1, end, -step)
    return edges.cumsum(-1)[..., :keys] > 0


def seen_only(weights: T, v: T, allowed: T | None) -> T:
    """Return weights @ v over the pairs that are seen: what is hidden is selected away, be it infinite or NaN."""
    if allowed is None:
        return weights @ v
    weights = weights.masked_fill(~allowed, 0)
    odd = (~v.isfinite().all(-1)).flatten(0, -2).any(0).nonzero()[:, 0]
    out = weights.index_fill(-1, odd, 0) @ v.index_fill(-2, odd, 0)
    for n in odd.tolist():
        out = out + torch.where(allowed[..., n, None], weights[..., n, None] * v[..., n : n + 1, :], 0)
    return out


class Weighted(torch.autograd.Function):
    """`seen_only(weights, v)`, whose gradients are of the pairs alone that are seen."""

    @staticmethod
    def forward(ctx: Any, weights: T, v: T, allowed: T) -> T:
        """Return (items, groups, heads of a group, rows, columns); v is (items, groups, 1, keys, columns)."""
        ctx.save_for_backward(weights, v, allowed)
        return seen_only(weights, v, allowed)

    @staticmethod
    def backward(ctx: Any, gradient: T) -> tuple[T, T, None]:
        """Return gradients by weights and v."""
        weights, v, allowed = ctx.saved_tensors
        by_v = seen_only(weights.transpose(-1, -2), gradient, allowed.transpose(-1, -2))
        return gradient @ v.transpose(-1, -2), by_v.sum(2, keepdim=True), None


class Products(torch.autograd.Function):
    """q @ k, whose gradients are of the pairs alone that are seen."""

    @staticmethod
    def forward(ctx: Any, q: T, k: T, allowed: T) -> T:
        """Return (items, groups, heads of a group, rows, keys); k is (items, groups, 1, inner, keys)."""
        ctx.save_for_backward(q, k, allowed)
        return q @ k

    @staticmethod
    def backward(ctx: Any, gradient: T) -> tuple[T, T, None]:
        """Return gradients by q and k."""
        q, k, allowed = ctx.saved_tensors
        by_k = seen_only(gradient.transpose(-1, -2), q, allowed.transpose(-1, -2))
        return (
            seen_only(gradient, k.transpose(-1, -2), allowed),
            by_k.sum(2, keepdim=True).transpose(-1, -2),
            None,
        )


def applied(product: type[torch.autograd.Function], left: T, right: T, allowed: T | None) -> T:
    """Return a product with the gradients of what is seen; torch's own where all is."""
    found: T
    found = left @ right if allowed is None else product.apply(left, right, allowed)  # type: ignore[no-untyped-call]  # torch has no types for it
    return found


def scores_of(
    q: T, k: T, slopes: T | None, scale: float, soft_cap: float, positions: T, allowed: T | None
) -> T:
    """Return scores of (items, groups, heads of a group, rows, inner) by (items, groups, keys, inner)."""
    k = k[:, :, None]
    scores = applied(Products, q, k.transpose(-1, -2), allowed) * scale
    if soft_cap:
        scores = torch.tanh(scores / soft_cap) * soft_cap
    if slopes is not None:
        apart = (torch.arange(k.shape[-2], device=k.device) - positions[..., None]).abs()
        scores = scores - slopes.to(scores.dtype).reshape(*q.shape[1:3], 1, 1) * apart
    return scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))


def shown(ranges: T | None, shape: tuple[int, ...], keys: int) -> T | None:
    """Return which keys rows see, (items, groups, heads of a group, rows, keys); None for all."""
    if ranges is None:
        return None
    items, groups, each, rows = shape
    return allowed_of(ranges, keys).expand(items, groups * each, rows, keys).reshape(*shape, keys)


def some_rows(
    q: T, k: T, v: T, ranges: T | None, sinks: T | None, slopes: T | None, scale: float, soft_cap: float, positions: T
) -> tuple[T, T]:  # fmt: skip
    """Return the result of some rows, in the dtype of their arithmetic."""
    items, heads, rows, _ = q.shape
    groups, keys = k.shape[1:3]
    shape = (items, groups, heads // groups, rows)
    allowed = shown(ranges, shape, keys)
    scores = scores_of(q.reshape(*shape, q.shape[3]), k, slopes, scale, soft_cap, positions, allowed)
    more = None if sinks is None else sinks.to(q.dtype).reshape(1, *shape[1:3], 1)
    top = scores.amax(-1) if keys else scores.new_full(shape, float("-inf"))
    if more is not None:
        top = torch.maximum(top, more)
    dead = top == float("-inf")
    top = torch.where(dead, 0, top).detach()
    weights = (scores - top[..., None]).exp()
    total = weights.sum(-1)
    if more is not None:
        total = total + (more - top).exp()
    total = torch.where(dead, 1, total)
    v = v[:, :, None]
    out = applied(Weighted, weights, v, allowed) / total[..., None]
    lse = torch.where(dead, float("-inf"), top + total.log())
    return out.reshape(items, heads, rows, v.shape[-1]), lse.reshape(items, heads, rows)


def parts(q: T, k: T, ranges: T | None) -> list[tuple[slice, T | None, T]]:
    """Return slices of rows, their ranges, and their positions, so few that their scores fit into a chunk."""
    items, heads, rows, _ = q.shape
    keys = k.shape[2]
    each = max(1, CHUNK // max(1, items * heads * keys))
    found: list[tuple[slice, T | None, T]] = []
    for i in range(0, rows, each):
        part = slice(i, min(i + each, rows))
        positions = torch.arange(part.start, part.stop, device=q.device) + (keys - rows)
        found.append((part, None if ranges is None else ranges[:, :, part], positions))
    return found


def attention(
    q: T, k: T, v: T, ranges: T | None = None, sinks: T | None = None, slopes: T | None = None, scale: float = 1.0,
    soft_cap: float = 0.0,
) -> tuple[T, T]:  # fmt: skip
    """Return attention and the log-sum-exp of each row's scores; rows that see no key are zero, and -inf."""
    wide = torch.promote_types(q.dtype, torch.float32)
    k, v = k.to(wide), v.to(wide)
    found = [
        some_rows(q[:, :, part].to(wide), k, v, some, sinks, slopes, scale, soft_cap, positions)
        for part, some, positions in parts(q, k, ranges)
    ]
    if not found:
        return q.new_empty((*q.shape[:3], v.shape[3])), q.new_empty(q.shape[:3], dtype=wide)
    outs, lses = zip(*found, strict=True)
    return torch.cat(outs, 2).to(q.dtype), torch.cat(lses, 2)


def gradients_as_given(
    gradient: T, lse_gradient: T | None, q: T, k: T, v: T, out: T, lse: T, ranges: T | None = None,
    sinks: T | None = None, slopes: T | None = None, scale: float = 1.0, soft_cap: float = 0.0,
) -> tuple[T, T, T, T]:  # fmt: skip
    """Return what `gradients` does, from results and log-sum-exps as they are given: they may be any numbers."""
    wide = torch.promote_types(q.dtype, torch.float32)
    g, q, k, v, out = (t.to(wide) for t in (gradient, q, k, v, out))
    items, heads, rows, inner = q.shape
    groups, keys = k.shape[1:3]
    shape = (items, groups, heads // groups, rows)
    parted = q.reshape(*shape, inner)
    allowed = shown(ranges, shape, keys)
    plain = parted @ k[:, :, None].transpose(-1, -2) * scale
    positions = torch.arange(rows, device=q.device) + (keys - rows)
    scores = scores_of(parted, k, slopes, scale, soft_cap, positions, allowed)
    weights = (scores - lse.to(wide).reshape(*shape, 1)).exp()
    rest = (g * out).sum(-1) - (0 if lse_gradient is None else lse_gradient.to(wide))
    rest, g = rest.reshape(*shape, 1), g.reshape(*shape, v.shape[3])
    slope = weights * (g @ v[:, :, None].transpose(-1, -2) - rest)
    if soft_cap:
        slope = slope * (1 - torch.tanh(plain / soft_cap) ** 2)
    turned = None if allowed is None else allowed.transpose(-1, -2)
    dq = (seen_only(slope, k[:, :, None], allowed) * scale).reshape(q.shape)
    dk = (seen_only(slope.transpose(-1, -2), parted, turned) * scale).sum(2)
    dv = seen_only(weights.transpose(-1, -2), g, turned).sum(2)
    if sinks is None:
        return dq, dk, dv, q.new_empty(0)
    own = (sinks.to(wide).reshape(1, *shape[1:3], 1) - lse.to(wide).reshape(shape)).exp()
    return dq, dk, dv, -(own[..., None] * rest).sum((0, 3, 4)).reshape(-1)


def gradients(
    gradient: T, lse_gradient: T | None, q: T, k: T, v: T, out: T, lse: T, ranges: T | None, sinks: T | None,  # noqa: ARG001
    slopes: T | None, scale: float, soft_cap: float,
) -> tuple[T, T, T, T]:  # fmt: skip
    """Return gradients by q, k, v and sinks (empty if there are none), in float32 or wider."""
    wide = torch.promote_types(q.dtype, torch.float32)
    q, k, v = (t.detach().to(wide) for t in (q, k, v))
    kept = q.new_empty(0) if sinks is None else sinks.detach().to(wide)
    dq, dk, dv, dsinks = (torch.zeros_like(t) for t in (q, k, v, kept))
    with torch.enable_grad():
        for part, some, positions in parts(q, k, ranges):
            leaves = [t.detach().requires_grad_() for t in (q[:, :, part], k, v, kept)]
            mine, keys, values, own = leaves
            found = some_rows(
                mine, keys, values, some, None if sinks is None else own, slopes, scale, soft_cap, positions
            )
            given: list[T | None] = [gradient[:, :, part].to(wide), None]
            if lse_gradient is not None:  # of a row without keys it is none
                given[1] = torch.where(found[1].isfinite(), lse_gradient[:, :, part].to(wide), 0)
            wanted = [(o, g) for o, g in zip(found, given, strict=True) if g is not None]
            each = torch.autograd.grad(
                [o for o, _ in wanted], leaves, [g for _, g in wanted], allow_unused=True
            )
            dq[:, :, part] = each[0]
            for total, one in zip((dk, dv, dsinks), each[1:], strict=True):
                if one is not None:
                    total.add_(one)
    return dq, dk, dv, dsinks


def cached(cache: T, scales: T | None, page: T, slot: T, dtype: torch.dtype) -> T:
    """Return what a cache has at some positions of each sequence: (batch, groups, positions, columns)."""
    found = cache[page, slot]
    if cache.dtype is torch.uint8:  # blocks of 32 columns in 16 bytes
        halves = found.reshape(*found.shape[:-1], -1, 1, 16)
        found = (torch.cat((halves & 15, halves >> 4), -2).to(torch.int8) - 8).flatten(-3)
    found = found.to(dtype)
    if scales is not None:
        each = scales[page, slot].to(dtype)
        if each.dim() == found.dim():
            each = each.repeat_interleave(found.shape[-1] // each.shape[-1], -1)
        found = found * (each if each.dim() == found.dim() else each[..., None])
    return found.transpose(1, 2)


def decode(
    q: T, k_cache: T, v_cache: T, lengths: T, pages: T | None = None, k_scales: T | None = None,
    v_scales: T | None = None, sinks: T | None = None, slopes: T | None = None, window: int = 0, scale: float = 1.0,
    soft_cap: float = 0.0,
) -> tuple[T, T]:  # fmt: skip
    """Return attention of one token of each sequence to the first positions of its pages, and the log-sum-exp."""
    wide = torch.promote_types(q.dtype, torch.float32)
    size = k_cache.shape[1]
    if pages is None:
        pages = torch.arange(q.shape[0], device=q.device)[:, None]
    position = torch.arange(size * pages.shape[1], device=q.device)
    page, slot = pages.long()[:, position // size], position % size
    ends = lengths.long()
    begins = (ends - window).clamp(min=0) if window else torch.zeros_like(ends)
    ranges = torch.stack((begins, ends), -1)[:, None, None, None]
    out, lse = some_rows(
        q[:, :, None].to(wide), cached(k_cache, k_scales, page, slot, wide),
        cached(v_cache, v_scales, page, slot, wide), ranges, sinks, slopes, scale, soft_cap,
        (ends - 1)[:, None, None, None],
    )  # fmt: skip
    return out[:, :, 0].to(q.dtype), lse[:, :, 0]
