"""Mixture of experts: choosing experts, sorting tokens by expert, and the products of all experts as one kernel.

| name | what it computes |
|---|---|
| `gate(logits, chosen)` | the experts of each token and their weights: softmax or sigmoid, biased, limited to groups |
| `plan(ids, groups)` | tokens in the order of their experts, and where each expert's begin |
| `grouped_mm(x, panels, offsets)` | rows of each group times the group's weight, gathered, scattered and weighted |
| `experts(x, packed, weights, ids)` | the whole layer: gated by silu, experts that all tokens share included |
| `quantized_experts(x, packed, weights, ids)` | the whole layer, on experts in codes of 1 to 8 bits |
| `load(ids, experts)` | how evenly tokens are spread |
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from .._core import (
    Kernel,
    Op,
    Tuning,
    by_reference,
    checked,
    cpu_only,
    matrix,
    opaque,
    refuse,
    remembered,
    told,
)
from . import reference
from ._packed import Experts, check_chosen, pack, pack_groups
from ._quantized import QuantizedExperts, quantize, quantized_experts
from ._report import Load, load

__all__ = [
    "KERNEL",
    "Experts",
    "Load",
    "QuantizedExperts",
    "experts",
    "gate",
    "grouped_mm",
    "load",
    "pack",
    "pack_groups",
    "plan",
    "quantize",
    "quantized_experts",
]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""

T = torch.Tensor


def _served(x: T, *others: object) -> str | None:
    if x.dtype not in (torch.float32, torch.bfloat16):
        return f"x is of {x.dtype}, and the kernel takes float32 and bfloat16"
    given = [t for t in (x, *others) if isinstance(t, T)]
    if not all(t.is_contiguous() for t in given):
        return "a tensor is not contiguous"
    return cpu_only(*given)


def _check_gate(
    logits: T, bias: T | None, chosen: int, _sigmoid: bool, groups: int, kept: int, best_of_group: int,
    *_: object,
) -> None:  # fmt: skip
    matrix("moe.gate", "logits", logits)
    experts = logits.shape[1]
    wide = torch.promote_types(logits.dtype, torch.float32)
    if bias is not None and (bias.shape != (experts,) or bias.dtype not in (torch.float32, wide)):
        refuse(
            "moe.gate", "bias", f"of shape {tuple(bias.shape)}, {bias.dtype}", f"({experts},), torch.float32"
        )
    if groups < 1 or experts % groups:
        refuse("moe.gate", "groups", groups, f"a divisor of {experts}, the number of experts")
    if not 1 <= kept <= groups:
        refuse("moe.gate", "kept", kept, f"1 to {groups}, the number of groups")
    if best_of_group not in (1, 2):
        refuse("moe.gate", "best_of_group", best_of_group, "1 or 2")
    most = experts // groups * kept if groups > 1 else experts
    if not 1 <= chosen <= most:
        refuse("moe.gate", "chosen", chosen, f"1 to {most}, the experts of the groups that are kept")


def _gated(logits: T, _bias: T | None, chosen: int, *_: object) -> tuple[T, T]:
    shape = (logits.shape[0], chosen)
    wide = torch.promote_types(logits.dtype, torch.float32)
    return logits.new_empty(shape, dtype=wide), logits.new_empty(shape, dtype=torch.int64)


def _check_plan(keys: T, groups: int) -> None:
    if keys.dim() != 1 or keys.dtype is not torch.int64:
        refuse("moe.plan", "ids", f"of shape {tuple(keys.shape)}, {keys.dtype}", "a vector of torch.int64")
    if groups < 1:
        refuse("moe.plan", "groups", groups, "1 or more")


def _check_grouped(
    x: T,
    panels: T,
    offsets: T,
    gather: T | None,
    scatter: T | None,
    weights: T | None,
    rows: int,
    columns: int,
) -> None:
    op = "moe.grouped_mm"
    matrix(op, "x", x)
    _check_panels(op, "panels", panels, x)
    groups = panels.shape[0]
    if offsets.shape != (groups + 1,) or offsets.dtype is not torch.int64:
        refuse(
            op,
            "offsets",
            f"of shape {tuple(offsets.shape)}, {offsets.dtype}",
            f"({groups + 1},), torch.int64",
        )
    if -(-columns // 32) != panels.shape[1]:
        refuse(op, "columns", columns, f"a number that fills {panels.shape[1]} panels of 32")
    for name, index in (("gather", gather), ("scatter", scatter)):
        if index is not None and (index.dim() != 1 or index.dtype is not torch.int64):
            refuse(op, name, told(index), "a vector of torch.int64")
    if weights is not None and (weights.shape != (rows,) or weights.dtype is not torch.float32):
        refuse(
            op, "weights", f"of shape {tuple(weights.shape)}, {weights.dtype}", f"({rows},), torch.float32"
        )


def _grouped_by_reference(
    x: T,
    panels: T,
    offsets: T,
    gather: T | None,
    scatter: T | None,
    weights: T | None,
    rows: int,
    columns: int,
) -> T:
    """Run the reference on entries that there are; the kernel looks for itself."""
    op, ends = "moe.grouped_mm", offsets.tolist()
    if ends[0] != 0 or any(a > b for a, b in pairwise(ends)):
        refuse(op, "offsets", "not from 0 upwards", "where each group begins, and the end")
    for name, index, below in (("gather", gather, len(x)), ("scatter", scatter, rows)):
        most = below if index is None else len(index)
        if ends[-1] > most:
            refuse(op, "offsets", f"up to {ends[-1]}", f"at most {most}, the rows that {name} gives")
        if index is not None and len(index) and not 0 <= int(index.min()) <= int(index.max()) < below:
            refuse(op, name, "out of range somewhere", f"0 to {below - 1}")
    return reference.grouped(x, panels, offsets, gather, scatter, weights, rows, columns)


def _check_panels(op: str, name: str, panels: T, x: T) -> None:
    if panels.dim() != 5 or panels.shape[3:] != (2, 16):
        refuse(op, name, f"of shape {tuple(panels.shape)}", "(groups, panels, inner, 2, 16)")
    if panels.dtype is not x.dtype:
        refuse(op, name, f"of {panels.dtype}", f"{x.dtype}, as x is")
    if name != "packed.downs" and panels.shape[2] != x.shape[1]:
        refuse(op, name, f"of {panels.shape[2]} inner elements", f"{x.shape[1]}, as x has")


def _check_experts(x: T, ups: T, downs: T, weights: T, ids: T) -> None:
    op = "moe.experts"
    matrix(op, "x", x)
    _check_panels(op, "packed.ups", ups, x)
    _check_panels(op, "packed.downs", downs, x)
    wanted = (ups.shape[0], -(-x.shape[1] // 32), ups.shape[1] * 16)
    if downs.shape[:3] != wanted:
        refuse(op, "packed.downs", f"of shape {tuple(downs.shape)}", f"{(*wanted, 2, 16)}")
    check_chosen("moe.experts", x, weights, ids)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs)


def _gradients(x: T, ups: T, downs: T, weights: T, ids: T, slope: T, wanted: list[bool]) -> list[T]:
    """Differentiate the reference; its experts have the tokens of the same plan. What is not wanted is empty."""
    given = x, ups, downs, weights
    found = by_reference(reference.experts, given, (ids,), wanted, slope)
    return [one.new_empty(0) if by is None else by for one, by in zip(given, found, strict=True)]


def _empty_gradients(*given: Any) -> list[T]:
    pairs = zip(given[:4], given[-1], strict=True)
    return [torch.empty_like(one) if need else one.new_empty(0) for one, need in pairs]


_opaque_gradients = opaque(
    "moe_experts_gradients(Tensor x, Tensor ups, Tensor downs, Tensor weights, Tensor ids, Tensor slope, "
    "bool[] wanted) -> Tensor[]",
    _gradients,
    _empty_gradients,
)


def _backward(ctx: Any, gradient: T) -> tuple[T | None, ...]:
    *given, ids = ctx.saved_tensors
    wanted = ctx.needs_input_grad[:4]
    if torch.is_grad_enabled():  # gradients of gradients are asked for
        return *by_reference(reference.experts, given, (ids,), wanted, gradient), None
    found = _opaque_gradients(*given, ids, gradient, list(wanted))
    return *(one if need else None for one, need in zip(found, wanted, strict=True)), None


def _keep_gate(ctx: Any, inputs: tuple[Any, ...], output: tuple[T, T]) -> None:
    logits, _bias, _chosen, sigmoid, *_groups, renormalised, scale = inputs
    ctx.save_for_backward(logits, output[1])
    ctx.settings = sigmoid, renormalised, scale


def _gate_backward(ctx: Any, gradient: T, _: T | None) -> tuple[T | None, ...]:
    """Differentiate the weights of the experts that were chosen, as if no others could have been."""
    logits, ids = ctx.saved_tensors
    return *by_reference(reference.weights_of, [logits], (ids, *ctx.settings), [True], gradient), *[None] * 8


_gate = Op(
    "moe_gate(Tensor logits, Tensor? bias, int chosen, bool sigmoid, int groups, int kept, int best_of_group, "
    "bool renormalised, float scale) -> (Tensor, Tensor)",
    reference=reference.gate, kernel=KERNEL, outputs=_gated, check=_check_gate, serves=_served,
    gradient=(_keep_gate, _gate_backward),
)  # fmt: skip
_plan = Op(
    "moe_plan(Tensor keys, int groups) -> (Tensor, Tensor)",
    reference=reference.plan, kernel=KERNEL, check=_check_plan,
    outputs=lambda keys, groups: (torch.empty_like(keys), keys.new_empty(groups + 1)),
    serves=lambda keys, _: None if keys.is_contiguous() and keys.is_cpu else "keys are not contiguous on the CPU",
    tuning=Tuning("segments", lambda keys, groups: (keys.numel(), groups)),
)  # fmt: skip
_grouped = Op(
    "moe_grouped(Tensor x, Tensor panels, Tensor offsets, Tensor? gather, Tensor? scatter, Tensor? weights, int rows, "
    "int columns) -> Tensor",
    reference=_grouped_by_reference, kernel=KERNEL, check=_check_grouped, serves=_served,
    outputs=lambda x, *rest: x.new_empty(rest[-2], rest[-1]),
    tuning=Tuning("gathered_gemm", lambda x, panels, *_: (len(x), len(panels), x.shape[1], panels.shape[1])),
)  # fmt: skip
_experts = Op(
    "moe_experts(Tensor x, Tensor ups, Tensor downs, Tensor weights, Tensor ids) -> Tensor",
    reference=reference.experts, kernel=KERNEL, check=_check_experts, serves=_served,
    outputs=lambda x, *_: torch.empty_like(x), gradient=(_keep, _backward),
    tuning=Tuning(
        "gathered_gemm", lambda x, ups, _downs, _weights, ids: (ids.numel(), len(ups), x.shape[1], ups.shape[1])
    ),
)  # fmt: skip


@remembered
@checked
def gate(
    logits: T, chosen: int, *, bias: T | None = None, sigmoid: bool = False, groups: int = 1, kept: int = 1,
    best_of_group: int = 1, renormalised: bool = True, scale: float = 1.0,
) -> tuple[T, T]:  # fmt: skip
    """Choose the experts of each token.

    Args:
        logits: (tokens, experts) float32 or bfloat16.
        chosen: Experts of a token.
        bias: (experts,) float32, or float64 as logits; added to scores where experts are chosen, and not to weights.
        sigmoid: Scores are sigmoids of logits, else their softmax.
        groups: Experts are chosen among those of some groups; a divisor of their number.
        kept: How many groups, those with the best score.
        best_of_group: A group's score is its best expert's (1), or the sum of its two best (2).
        renormalised: Whether a token's weights are divided by their sum.
        scale: What weights are multiplied by last.

    Returns:
        weights: (tokens, chosen) float32, the largest score first, with gradients in logits.
        ids: (tokens, chosen) int64; of equal scores the first expert.

    Raises:
        ArgumentError: shapes, dtypes or numbers do not fit.

    Example:
        >>> weights, ids = gate(torch.tensor([[0.0, 3.0, 3.0, 1.0]]), 2)
        >>> weights.tolist(), ids.tolist()
        ([[0.5, 0.5]], [[1, 2]])
    """
    found: tuple[T, T] = _gate(
        logits, bias, chosen, sigmoid, groups, kept, best_of_group, renormalised, float(scale)
    )
    return found


@remembered
@checked
def plan(ids: T, groups: int) -> tuple[T, T]:
    """Sort by group: where tokens of each expert lie together.

    Args:
        ids: Group of each entry, int64, of any shape; entries outside of 0 to groups - 1 belong to none.
        groups: How many there are.

    Returns:
        order: (entries,) int64: indices of the flattened entries, group by group, first ones first; those of no
            group last.
        offsets: (groups + 1,) int64: where in `order` each group begins.

    Raises:
        ArgumentError: another dtype, or no groups.

    Example:
        >>> order, offsets = plan(torch.tensor([1, 0, 1, -1]), 3)
        >>> order.tolist(), offsets.tolist()
        ([1, 0, 2, 3], [0, 1, 3, 3])
    """
    found: tuple[T, T] = _plan(ids.reshape(-1), groups)
    return found


@remembered
@checked
def grouped_mm(
    x: T, panels: T, offsets: T, columns: int, *, gather: T | None = None, scatter: T | None = None,
    weights: T | None = None, rows: int | None = None,
) -> T:  # fmt: skip
    """Multiply rows of each group by the group's weight: `out[scatter[i]] += weights[scatter[i]] * x[gather[i]] @ w.T`.

    Args:
        x: (n, inner) float32 or bfloat16.
        panels: The weights, as `pack_groups` makes them, of x's dtype.
        offsets: (groups + 1,) int64, as `plan` makes them.
        columns: Columns of the result, which panels do not say.
        gather: (entries,) int64: the row of x of entry i; i if none.
        scatter: (entries,) int64: the row of the result of entry i; i if none.
        weights: (rows,) float32, by rows of the result; 1 if none.
        rows: Rows of the result; as many as there are entries by default.

    Returns:
        (rows, columns) of x's dtype, zero where no entry is added; the same however many threads there are.

    Raises:
        ArgumentError: shapes or dtypes do not fit, or an index is out of range.

    Example:
        >>> w = torch.tensor([[[1.0, 0.0]], [[0.0, 10.0]]])  # two weights of one column
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> grouped_mm(x, pack_groups(w), torch.tensor([0, 1, 2]), 1).tolist()
        [[1.0], [40.0]]
    """
    if rows is None:
        rows = len(x if gather is None else gather)
    out: T = _grouped(x, panels, offsets, gather, scatter, weights, rows, columns)
    return out


@remembered
@checked
def experts(x: T, packed: Experts, weights: T, ids: T) -> T:
    """Run a layer of experts: for each token the weighted sum of what its experts, and the shared ones, make of it.

    An expert computes `(silu(x @ gate.T) * (x @ up.T)) @ down.T`. Sums are float32; with bfloat16 and four rows or
    more of an expert, what lies between its products is rounded to bfloat16.

    Args:
        x: (tokens, hidden) float32 or bfloat16.
        packed: The experts, of x's dtype.
        weights: (tokens, chosen) float32, or float64 where x is.
        ids: (tokens, chosen) int64; entries that are no expert's, such as -1, add nothing.

    Returns:
        (tokens, hidden) of x's dtype. It has gradients by x, the weights and the packed experts.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> packed = pack(torch.randn(4, 64, 32), torch.randn(4, 32, 32))
        >>> x = torch.randn(5, 32)
        >>> experts(x, packed, *gate(torch.randn(5, 4), 2)).shape
        torch.Size([5, 32])
    """
    check_chosen("moe.experts", x, weights, ids)
    if packed.shared:
        more = torch.arange(packed.routed, packed.routed + packed.shared, device=ids.device).expand(
            len(ids), -1
        )
        ids = torch.cat((torch.where(ids < packed.routed, ids, -1), more), 1)
        weights = torch.cat((weights, weights.new_ones(more.shape)), 1)
    out: T = _experts(x, packed.ups, packed.downs, weights.contiguous(), ids.contiguous())
    return out
