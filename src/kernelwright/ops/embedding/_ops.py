"""Ops of embeddings: a table's rows by number, or bags of them, and their gradients."""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, cpu_only, floats, matrix, refuse, told
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_Tensor = torch.Tensor
_Maybe = torch.Tensor | None
_INDICES = (torch.int32, torch.int64)
SUM, MEAN, MAX = 0, 1, 2


def check_ids(op: str, name: str, ids: _Tensor) -> None:
    """Refuse what is no tensor of int32 or int64."""
    if not isinstance(ids, torch.Tensor) or ids.dtype not in _INDICES:
        refuse(op, name, told(ids), "a tensor of int32 or int64")


def _check_padding(op: str, padding: int, rows: int) -> None:
    if not -1 <= padding < rows:
        refuse(op, "padding_idx", padding, f"below {rows}, the rows of the table")


def _check_one(weight: _Tensor, ids: _Tensor, padding: int) -> None:
    matrix("embedding.embedding", "weight", weight)
    check_ids("embedding.embedding", "ids", ids)
    _check_padding("embedding.embedding", padding, len(weight))


def _check_one_gradient(g: _Tensor, ids: _Tensor, rows: int, padding: int) -> None:
    op = "embedding.embedding_backward"
    floats(op, "g", g)
    check_ids(op, "ids", ids)
    if tuple(g.shape[:-1]) != tuple(ids.shape) or not g.dim():
        refuse(op, "g", told(g), f"a row for each of the ids, of shape {tuple(ids.shape)}")
    _check_padding(op, padding, rows)


def _check_bags(
    op: str, ids: _Tensor, offsets: _Tensor, scale: _Maybe, dtype: torch.dtype, ended: bool = True
) -> None:
    for name, x in (("ids", ids), ("offsets", offsets)):
        check_ids(op, name, x)
        if x.dim() != 1:
            refuse(op, name, f"of shape {tuple(x.shape)}", "a vector")
    if ended and not len(offsets):
        refuse(op, "offsets", "empty", "one number more than bags")
    if scale is not None:
        floats(op, "per_sample_weights", scale)
        if scale.shape != ids.shape or scale.dtype is not dtype:
            refuse(op, "per_sample_weights", told(scale), f"{tuple(ids.shape)}, {dtype}, one for each id")


def _check_mode(op: str, mode: int, scale: _Maybe) -> None:
    if mode not in (SUM, MEAN, MAX):
        refuse(op, "mode", mode, "0, 1 or 2: sum, mean or max")
    if scale is not None and mode == MEAN:
        refuse(op, "per_sample_weights", "given", "none, or mode sum")


def _check_bag(
    weight: _Tensor, ids: _Tensor, offsets: _Tensor, scale: _Maybe, mode: int, padding: int, ended: bool
) -> None:
    op = "embedding.embedding_bag"
    matrix(op, "weight", weight)
    _check_bags(op, ids, offsets, scale, weight.dtype, ended)
    _check_mode(op, mode, scale)
    if scale is not None and mode == MAX:
        refuse(op, "per_sample_weights", "given", "none, or mode sum")
    _check_padding(op, padding, len(weight))


def _check_bag_gradient(
    g: _Tensor, ids: _Tensor, offsets: _Tensor, scale: _Maybe, chosen: _Tensor, rows: int, mode: int, padding: int
) -> None:  # fmt: skip
    op = "embedding.embedding_bag_backward"
    matrix(op, "g", g)
    _check_bags(op, ids, offsets, scale, g.dtype)
    _check_mode(op, mode, scale)
    if len(g) != len(offsets) - 1:
        refuse(op, "g", f"of {len(g)} rows", f"{len(offsets) - 1}, one for each bag")
    if mode == MAX and (chosen.shape != g.shape or chosen.dtype is not torch.int64):
        refuse(op, "chosen", told(chosen), f"{tuple(g.shape)}, torch.int64")
    _check_padding(op, padding, rows)


def _check_scale_gradient(g: _Tensor, weight: _Tensor, ids: _Tensor, offsets: _Tensor, padding: int) -> None:
    op = "embedding.embedding_scale_backward"
    matrix(op, "weight", weight)
    matrix(op, "g", g)
    _check_bags(op, ids, offsets, None, g.dtype)
    if tuple(g.shape) != (len(offsets) - 1, weight.shape[1]) or g.dtype is not weight.dtype:
        refuse(op, "g", told(g), f"{(len(offsets) - 1, weight.shape[1])}, {weight.dtype}, a row for each bag")
    _check_padding(op, padding, len(weight))


def _look(weight: _Tensor, ids: _Tensor) -> None:
    if ids.numel() and not (ids.min() >= 0 and ids.max() < len(weight)):
        most = len(weight) - 1
        raise IndexError(
            f"embedding: ids is out of range somewhere; expected 0 to {most}, the rows of weight"
        )


def _one_reference(weight: _Tensor, ids: _Tensor, padding: int) -> _Tensor:
    """Run the reference on ids within the table: the kernel looks at them itself."""
    _look(weight, ids)
    return reference.embedding(weight, ids, padding)


def _bag_reference(
    weight: _Tensor, ids: _Tensor, offsets: _Tensor, scale: _Maybe, mode: int, padding: int, ended: bool
) -> Any:
    """Run the reference, once offsets ascend too."""
    _look(weight, ids)
    offsets = reference.ends(ids, offsets, ended)
    if (offsets[1:] < offsets[:-1]).any() or offsets[0] < 0 or offsets[-1] > len(ids):
        said = "expected them to ascend from 0 to the number of ids"
        raise ValueError(f"embedding: offsets is no row of offsets; {said}")
    return reference.embedding_bag(weight, ids, offsets, scale, mode, padding)


def _bags(offsets: _Tensor, ended: bool) -> int:
    return offsets.shape[0] - 1 if ended else offsets.shape[0]


def _serves(*arguments: Any) -> str | None:
    """Serve contiguous float32 and bfloat16."""
    for x in arguments:
        if isinstance(x, torch.Tensor):
            if x.is_floating_point() and x.dtype not in (torch.float32, torch.bfloat16):
                return f"a tensor is of {x.dtype}, and the kernel takes float32 and bfloat16"
            if not x.is_contiguous():
                return "a tensor is not contiguous"
            if not x.is_cpu:
                return cpu_only(x)
    return None


one_backward = Op(
    "embedding_backward(Tensor g, Tensor ids, int rows, int padding) -> Tensor",
    reference=reference.embedding_backward, kernel=KERNEL, check=_check_one_gradient, serves=_serves,
    outputs=lambda g, ids, rows, padding: g.new_empty(rows, g.shape[-1]),  # noqa: ARG005
)  # fmt: skip
bag_backward = Op(
    "embedding_bag_backward(Tensor g, Tensor ids, Tensor offsets, Tensor? scale, Tensor chosen, int rows, int mode,"
    " int padding) -> Tensor",
    reference=reference.embedding_bag_backward, kernel=KERNEL, check=_check_bag_gradient, serves=_serves,
    outputs=lambda g, ids, offsets, scale, chosen, rows, *_: g.new_empty(rows, g.shape[1]),  # noqa: ARG005
)  # fmt: skip
scale_backward = Op(
    "embedding_scale_backward(Tensor g, Tensor weight, Tensor ids, Tensor offsets, int padding) -> Tensor",
    reference=reference.embedding_scale_backward, kernel=KERNEL, check=_check_scale_gradient, serves=_serves,
    outputs=lambda g, weight, ids, *_: g.new_empty(ids.shape[0]),  # noqa: ARG005
)  # fmt: skip


def _backward(op: Op, *arguments: Any) -> Any:
    """Run a backward op, or where gradients of gradients are asked for its reference, which has them."""
    plain = [a.contiguous() if isinstance(a, torch.Tensor) else a for a in arguments]
    return (op.reference if torch.is_grad_enabled() else op)(*plain)


def _keep_one(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    weight, ids, ctx.padding = inputs
    ctx.rows = weight.shape[0]
    ctx.save_for_backward(ids)


def _one_gradient(ctx: Any, g: _Tensor) -> tuple[Any, ...]:
    return _backward(one_backward, g, *ctx.saved_tensors, ctx.rows, ctx.padding), None, None


def _keep_bag(ctx: Any, inputs: tuple[Any, ...], output: tuple[_Tensor, _Tensor]) -> None:
    weight, ids, offsets, scale, ctx.mode, ctx.padding, ended = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(weight, ids, reference.ends(ids, offsets, ended), scale, output[1])


def _bag_gradient(ctx: Any, g: _Tensor, _: Any) -> tuple[Any, ...]:
    weight, ids, offsets, scale, chosen = ctx.saved_tensors
    of_weight = of_scale = None
    if ctx.needs_input_grad[0]:
        of_weight = _backward(
            bag_backward, g, ids, offsets, scale, chosen, len(weight), ctx.mode, ctx.padding
        )
    if scale is not None and ctx.needs_input_grad[3]:
        of_scale = _backward(scale_backward, g, weight, ids, offsets, ctx.padding)
    return of_weight, None, None, of_scale, None, None, None


one = Op(
    "embedding(Tensor weight, Tensor ids, int padding) -> Tensor",
    reference=_one_reference, kernel=KERNEL, check=_check_one, serves=_serves,
    outputs=lambda weight, ids, padding: weight.new_empty((*ids.shape, weight.shape[1])),  # noqa: ARG005
    gradient=(_keep_one, _one_gradient),
)  # fmt: skip
bag = Op(
    "embedding_bag(Tensor weight, Tensor ids, Tensor offsets, Tensor? scale, int mode, int padding,"
    " bool ended) -> (Tensor, Tensor)",
    reference=_bag_reference, kernel=KERNEL, check=_check_bag, serves=_serves,
    outputs=lambda weight, ids, offsets, scale, mode, padding, ended: (  # noqa: ARG005
        weight.new_empty(_bags(offsets, ended), weight.shape[1]),
        ids.new_empty((_bags(offsets, ended), weight.shape[1]) if mode == MAX else 0, dtype=torch.int64),
    ),
    gradient=(_keep_bag, _bag_gradient),
)  # fmt: skip
