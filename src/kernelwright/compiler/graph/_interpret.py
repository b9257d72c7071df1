"""Graph, inputs → outputs in float64: the reference for every rewrite and printed kernel."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._graph import Graph
from ._nodes import (
    Cat,
    Constant,
    Contract,
    Expand,
    Gather,
    Node,
    Order,
    Pad,
    Permute,
    Point,
    Ramp,
    Recurrent,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Segment,
    Slice,
    TypedLinear,
    Window,
    sources_of,
)  # fmt: skip
from ._pointwise import POINTWISE


class NotInterpreted(Exception):
    """The graph holds a native region."""


def interpret(graph: Graph, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Compute the outputs in float64 (integers and masks unchanged).

    Covers: every node but `Native` and `Random`; of native ones, recurrent layers.
    Does not cover: new values of inputs that are changed in place; sizes other than those of the first workload.

    Args:
        graph: What to compute.
        inputs: Tensors by `Input` order, any dtype and layout.

    Raises:
        NotInterpreted: a node is native.
    """
    values: dict[int, torch.Tensor] = {
        id(node): _wide(value) for node, value in zip(graph.inputs, inputs, strict=True)
    }
    for node in graph.nodes:
        if id(node) not in values:
            values[id(node)] = _value(node, [values[id(s)] for s in sources_of(node)])
    return tuple(values[id(o)] for o in graph.outputs)


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.double() if value.is_floating_point() else value


def _kind(dtype: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype)
    return torch.float64 if found.is_floating_point else found


def _value(node: Node, given: list[torch.Tensor]) -> torch.Tensor:
    meaning = _MEANING.get(type(node))
    if meaning is None:
        raise NotInterpreted(f"{node.name} is native")
    found: torch.Tensor = meaning(node, *given)
    return found.to(_kind(node.dtype)).expand(_sizes(node)) if found.dim() else found.to(_kind(node.dtype))


def _sizes(node: Node) -> tuple[int, ...]:
    return tuple(int(s) for s in node.shape)


def _point(node: Point, *given: torch.Tensor) -> torch.Tensor:
    rest = iter(given)
    args = [next(rest) if isinstance(a, Node) else a for a in node.args]
    found = POINTWISE[node.op](*args, **dict(node.options))
    return torch.as_tensor(found).expand(_sizes(node))


def _constant(node: Constant) -> torch.Tensor:
    values = torch.tensor(node.values, dtype=_kind(node.dtype))
    return values[0].expand(_sizes(node)) if len(node.values) == 1 else values.reshape(_sizes(node))


def _ramp(node: Ramp) -> torch.Tensor:
    shape = [1] * len(node.shape)
    shape[node.dim] = -1
    return (node.start + node.step * torch.arange(int(node.shape[node.dim]))).reshape(shape)


def _slice(node: Slice, x: torch.Tensor) -> torch.Tensor:
    for d, (start, step, size) in enumerate(zip(node.starts, node.steps, node.shape, strict=True)):
        x = x.index_select(d, int(start) + step * torch.arange(int(size)))
    return x


def _pad(node: Pad, x: torch.Tensor) -> torch.Tensor:
    out = torch.full(_sizes(node), node.value, dtype=x.dtype)
    inside, from_ = [], []
    for low, have, size in zip(node.low, x.shape, node.shape, strict=True):
        begin, end = max(0, int(low)), min(int(size), int(low) + have)
        inside.append(slice(begin, max(begin, end)))
        from_.append(slice(begin - int(low), max(begin, end) - int(low)))
    out[tuple(inside)] = x[tuple(from_)]
    return out


def _window(node: Window, x: torch.Tensor) -> torch.Tensor:
    lead = len(node.shape) - len(node.dims)
    for i, d in enumerate(node.dims):
        size, count = int(node.shape[lead + i]), int(node.shape[d])
        starts = int(node.strides[i]) * torch.arange(count)
        at = starts[:, None] + int(node.dilations[i]) * torch.arange(size)[None, :]
        picked = x.index_select(d, at.flatten())
        picked = picked.reshape(*x.shape[:d], count, size, *x.shape[d + 1 :])
        x = picked.movedim(d + 1, -1)
    return x


def _gather(node: Gather, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    index = torch.where(index < 0, index + x.shape[node.dim], index)
    if node.aligned:
        return torch.gather(x, node.dim, index.long())
    return x.index_select(node.dim, index.flatten().long()).reshape(_sizes(node))


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda _, new: new, "sum": lambda old, new: old + new, "prod": lambda old, new: old * new,
    "max": torch.maximum, "min": torch.minimum,
}  # fmt: skip


def _scatter(node: Scatter, base: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    out = base.clone().movedim(node.dim, 0)
    updates = updates.to(base.dtype).movedim(node.dim, 0)
    index = torch.where(index < 0, index + base.shape[node.dim], index)
    if node.aligned:
        index = index.movedim(node.dim, 0)
        rest = [torch.arange(s) for s in updates.shape[1:]]
        grid = torch.meshgrid(*rest, indexing="ij") if rest else ()
        for i in range(updates.shape[0]):
            at = (index[i].long(), *grid)
            out[at] = _COMBINE[node.combine](out[at], updates[i])
    else:
        for i in range(updates.shape[0]):
            row = int(index[i])
            out[row] = _COMBINE[node.combine](out[row], updates[i])
    return out.movedim(0, node.dim)


def _segment(
    node: Segment, base: torch.Tensor, updates: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    rows = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    out, sorted_ = base.clone(), updates.to(base.dtype)[order]
    for row, update in zip(rows.tolist(), sorted_, strict=True):
        out[row] = _COMBINE[node.combine](out[row], update)
    return out


def _reduce(node: Reduce, x: torch.Tensor) -> torch.Tensor:
    kept = [d for d in range(x.dim()) if d not in node.dims]
    flat = x.permute(*kept, *node.dims).reshape([*(x.shape[d] for d in kept), -1])
    match node.monoid:
        case "sum":
            return flat.sum(-1)
        case "prod":
            return flat.prod(-1)
        case "max" | "min":
            return flat.amax(-1) if node.monoid == "max" else flat.amin(-1)
        case "argmax" | "argmin":
            best = (flat.amax(-1) if node.monoid == "argmax" else flat.amin(-1)).unsqueeze(-1)
            hit = (
                torch.where(best.isnan(), flat.isnan(), flat == best)
                if flat.is_floating_point()
                else flat == best
            )
            return hit.to(torch.int8).argmax(-1)
        case "any":
            return flat.bool().any(-1)
        case "all":
            return flat.bool().all(-1)
        case "logsumexp":
            return torch.logsumexp(flat, -1)
        case "sumexp":
            return (flat - flat.amax(-1, keepdim=True)).exp().sum(-1)
        case "variance":
            squares = (flat - flat.mean(-1, keepdim=True)).square().sum(-1)
            return (
                squares / max(0.0, flat.shape[-1] - node.correction) if flat.shape[-1] else squares * math.nan
            )


def _scan(node: Scan, x: torch.Tensor) -> torch.Tensor:
    match node.monoid:
        case "sum":
            return x.cumsum(node.dim)
        case "prod":
            return x.cumprod(node.dim)
        case "max":
            return x.cummax(node.dim).values
        case "min":
            return x.cummin(node.dim).values
        case "logsumexp":
            return torch.logcumsumexp(x, node.dim)
        case other:
            raise NotInterpreted(f"a scan of {other}")


def _contract(node: Contract, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    one, two, out = node.labels
    return torch.einsum(f"{one},{two}->{out}", left.double(), right.double())


def _typed_linear(
    _: TypedLinear, x: torch.Tensor, weights: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    found = torch.full((x.shape[0], weights.shape[2]), torch.nan, dtype=torch.float64)
    for matrix, first, end in zip(weights, offsets.tolist(), offsets[1:].tolist(), strict=False):
        found[order[first:end]] = x[order[first:end]].double() @ matrix.double()
    return found


def _recurrent(node: Recurrent, *given: torch.Tensor) -> torch.Tensor:
    x, *rest = (tensor.double() for tensor in given)
    states = 2 if node.layer == "lstm" else 1
    state = rest[:states] if states > 1 else rest[0]
    layer: Callable[..., tuple[torch.Tensor, ...]] = getattr(torch, node.layer)
    how = (node.biased, node.layers, 0.0, False, node.both_ways, node.batch_first)
    return layer(x, state, rest[states:], *how)[node.result]


_MEANING: dict[type[Node], Callable[..., torch.Tensor]] = {
    Point: _point,
    Constant: _constant,
    Ramp: _ramp,
    Reshape: lambda node, x: x.reshape(_sizes(node)),
    Permute: lambda node, x: x.permute(node.order),
    Expand: lambda node, x: x.expand(_sizes(node)),
    Slice: _slice,
    Pad: _pad,
    Window: _window,
    Cat: lambda node, *xs: torch.cat(xs, node.dim),
    Gather: _gather,
    Scatter: _scatter,
    Order: lambda _, keys, __: torch.argsort(keys, stable=True),
    Segment: _segment,
    Reduce: _reduce,
    Scan: _scan,
    Contract: _contract,
    TypedLinear: _typed_linear,
    Recurrent: _recurrent,
}
