"""References of scans: the recurrences as they are written, a step after another, in float32 or wider."""

from collections.abc import Callable

import torch

T = torch.Tensor


def wide(x: T) -> T:
    """Return x in float32, or as it is where it is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def selective(u: T, delta: T, a: T, b: T, c: T, d: T | None = None, state: T | None = None) -> tuple[T, T]:
    """Return what the selective scan gives at each time, (batch, length, channels), and the state after."""
    uw, step, bw, cw = wide(u), wide(delta), wide(b), wide(c)
    h = uw.new_zeros(u.shape[0], *a.shape) if state is None else state + 0
    rows = []
    for t in range(u.shape[1]):
        h = (step[:, t, :, None] * a).exp() * h + (step[:, t] * uw[:, t])[..., None] * bw[:, t, None]
        rows.append((h * cw[:, t, None]).sum(-1))
    y = torch.stack(rows, 1) if rows else torch.zeros_like(uw)
    return (y if d is None else y + d * uw).to(u.dtype), h


def shared(x: T, heads: int) -> T:
    """Return (batch, heads, length, size): each group's rows for every head of it."""
    return wide(x).repeat_interleave(heads // x.shape[1], 1) if x.shape[1] != heads else wide(x)


def linear(
    q: T, k: T, v: T, decay: T | None = None, state: T | None = None, scale: float = 1.0
) -> tuple[T, T]:
    """Return the rows of linear attention, (batch, heads, length, columns), and the state after."""
    return _linear(q, k, v, None, decay, state, scale)


def delta(
    q: T, k: T, v: T, beta: T, decay: T | None = None, state: T | None = None, scale: float = 1.0
) -> tuple[T, T]:
    """Return the rows of the gated delta rule, (batch, heads, length, columns), and the state after."""
    return _linear(q, k, v, beta, decay, state, scale)


def fade(decay: T) -> T:
    """Return what decays leave, NaN of an infinite one: what it makes of a state depends on the order of the rest."""
    return torch.where(decay.isneginf(), decay, decay + (decay - decay)).exp()


def _linear(q: T, k: T, v: T, beta: T | None, decay: T | None, state: T | None, scale: float) -> tuple[T, T]:
    heads, length = v.shape[1:3]
    s = wide(v).new_zeros(*v.shape[:2], q.shape[3], v.shape[3]) if state is None else state + 0
    qs, ks = ((shared(x, heads) * by)[..., None] for x, by in ((q, scale), (k, 1.0)))
    vs, gates = wide(v)[..., None, :], (None if decay is None else fade(decay), beta)
    fades, betas = (None if x is None else x[..., None, None] for x in gates)
    rows = []
    for t in range(length):
        key, u = ks[:, :, t], vs[:, :, t]
        if fades is not None:
            s = fades[:, :, t] * s
        if betas is not None:
            u = betas[:, :, t] * (u - (key * s).sum(-2, keepdim=True))
        s = s + key * u
        rows.append((qs[:, :, t] * s).sum(-2))
    return (torch.stack(rows, 2) if rows else torch.zeros_like(wide(v))).to(v.dtype), s


def _gradients(
    form: Callable[..., tuple[T, T]],
    given: tuple[T | None, ...],
    rest: tuple[float, ...],
    slopes: tuple[T, T | None],
) -> list[T]:
    """Return the gradients of a recurrence for its tensors, empty where none was given."""
    held, asked = [x is not None for x in given], [slope is not None for slope in slopes]

    def called(*leaves: T) -> tuple[T, ...]:
        rows = iter(leaves)
        outs = form(*(next(rows) if one else None for one in held), *rest)
        return tuple(out for out, one in zip(outs, asked, strict=True) if one)

    there = torch.func.vjp(called, *(x for x in given if x is not None))
    found = iter(there[1](tuple(slope for slope in slopes if slope is not None)))
    return [next(found) if one else slopes[0].new_empty(0) for one in held]


def selective_backward(
    u: T, delta: T, a: T, b: T, c: T, d: T | None, state: T | None, slope: T, after: T | None
) -> tuple[T, ...]:
    """Return the gradients of u, delta, a, b, c, d and the state; those of what was not given are of zeros."""
    zeros = a.new_zeros(u.shape[2]) if d is None else d
    before = a.new_zeros(u.shape[0], *a.shape) if state is None else state
    return tuple(_gradients(selective, (u, delta, a, b, c, zeros, before), (), (slope, after)))


def linear_backward(
    q: T, k: T, v: T, decay: T | None, state: T | None, scale: float, slope: T, after: T | None
) -> tuple[T, ...]:
    """Return the gradients of q and k for each head, v, decay (empty without one) and the state before."""
    wider = torch.promote_types(v.dtype, torch.float32)
    before = v.new_zeros(*v.shape[:2], q.shape[3], v.shape[3], dtype=wider) if state is None else state
    each = [x.repeat_interleave(v.shape[1] // x.shape[1], 1) for x in (q, k)]
    return tuple(_gradients(linear, (*each, v, decay, before), (scale,), (slope, after)))


def delta_backward(
    q: T, k: T, v: T, beta: T, decay: T | None, state: T | None, scale: float, slope: T, after: T | None
) -> tuple[T, ...]:
    """Return the gradients of q, k, v, beta, decay and the state; empty ones of what was not given."""
    return tuple(_gradients(delta, (q, k, v, beta, decay, state), (scale,), (slope, after)))
