"""Steps of many parameters in place: those that the kernel serves in one call, the others by the reference.

Each list has one tensor for each parameter. A parameter's state is float32, or wider where the parameter is.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import torch

from .._core import refuse
from . import _ops, reference

_Tensors = Sequence[torch.Tensor]
_COLUMNS = 7
"""Of the table that the kernel reads: addresses of parameter, gradient and three states, elements, bfloat16 or not."""


def _check_lists(op: str, params: _Tensors, **lists: Sequence[Any] | None) -> None:
    for name, given in lists.items():
        if given is not None and len(given) != len(params):
            refuse(op, name, f"{len(given)} long", f"{len(params)}, one for each parameter")


def _check_tensors(op: str, params: _Tensors, grads: _Tensors, **states: _Tensors | None) -> None:
    _check_lists(op, params, grads=grads, **states)
    for param, grad in zip(params, grads, strict=True):
        _ops.check_gradient(op, param, grad)
    for name, state in states.items():
        for one, param in zip(state or (), params, strict=False):
            _ops.check_state(op, name, one, param, tuple(param.shape))
    moved = [*params, *(one for state in states.values() for one in state or ())]
    if len({id(one) for one in moved}) < len(moved):
        refuse(op, "a tensor", "given twice", "each parameter and state once, since they are written")


def _split(params: _Tensors, grads: _Tensors, states: Sequence[_Tensors]) -> tuple[list[int], list[int]]:
    """Return the places of parameters that the kernel serves, and of the others."""
    served: list[int] = []
    others: list[int] = []
    for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
        plain = _ops.serves(param, grad, *(state[i] for state in states)) is None
        (served if plain else others).append(i)
    return served, others


def _table(served: list[int], params: _Tensors, grads: _Tensors, states: Sequence[_Tensors]) -> torch.Tensor:
    rest = [0] * (3 - len(states))
    rows = array("q")
    for i in served:
        param = params[i]
        rows.extend(
            [param.data_ptr(), grads[i].data_ptr(), *(state[i].data_ptr() for state in states), *rest,
             param.numel(), param.dtype is torch.bfloat16]
        )  # fmt: skip
    return torch.frombuffer(rows, dtype=torch.int64).view(len(served), _COLUMNS)


def _run(
    name: str, served: list[int], params: _Tensors, grads: _Tensors, states: Sequence[_Tensors], *rest: object
) -> bool:
    """Run the kernel of many parameters; False where it could not be built."""
    entry = _ops.KERNEL.function(name)
    if entry is None:
        return False
    entry(_table(served, params, grads, states), *rest)
    moved = [tensors[i] for tensors in (params, *states) for i in served]
    torch.autograd.graph.increment_version(moved)
    return True


@torch.compiler.disable  # type: ignore[untyped-decorator]
@torch.no_grad()
def adamw_(
    params: _Tensors, grads: _Tensors, means: _Tensors, squares: _Tensors, largest: _Tensors | None = None, *,
    steps: Sequence[float], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 1e-2, maximize: bool = False,
) -> None:  # fmt: skip
    """Move parameters and their moments by a step of AdamW, in place.

    Args:
        params: Of any shapes; contiguous float32 and bfloat16 run the kernel, others the reference.
        grads: Of their parameters' shapes, and for the kernel of their dtypes.
        means: The first moments, float32 (float64 for float64).
        squares: The second moments.
        largest: The largest second moments so far, of AMSGrad; none without it.
        steps: The number of this step for each parameter, from 1.
        lr: The learning rate.
        betas: What the moments keep of themselves.
        eps: Added to the root of the second moment.
        weight_decay: Times `lr`, what a parameter loses of itself.
        maximize: Whether to go up instead of down.

    Raises:
        ArgumentError: lists, shapes or dtypes do not fit, or a number is out of its range.

    Example:
        >>> p, m, v = torch.ones(2), torch.zeros(2), torch.zeros(2)
        >>> adamw_([p], [torch.tensor([2.0, -3.0])], [m], [v], steps=[1], lr=0.5, weight_decay=0.0)
        >>> p
        tensor([0.5000, 1.5000])
    """
    op = "optim.adamw_"
    _check_tensors(op, params, grads, means=means, squares=squares, largest=largest)
    _check_lists(op, params, steps=steps)
    _ops.check_rates(op, lr, *betas, weight_decay)
    _ops.check_number(op, "eps", eps, 0)
    if any(not step >= 1 for step in steps):
        refuse(op, "steps", min(steps), "numbers of 1 or more")
    states = [means, squares] if largest is None else [means, squares, largest]
    served, others = _split(params, grads, states)
    numbers = (lr, *betas, eps, weight_decay, maximize)
    of_each = torch.tensor([float(steps[i]) for i in served], dtype=torch.float64)
    if served and not _run("optim_adamw_many", served, params, grads, states, of_each, *numbers):
        others = list(range(len(params)))
    for i in others:
        top = None if largest is None else largest[i]
        new = reference.adamw(params[i], grads[i], means[i], squares[i], top, steps[i], *numbers)
        for old, moved in zip((params[i], means[i], squares[i], top), new, strict=True):
            if old is not None:
                old.copy_(moved)


@torch.compiler.disable  # type: ignore[untyped-decorator]
@torch.no_grad()
def lion_(
    params: _Tensors, grads: _Tensors, means: _Tensors, *, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 0.0, maximize: bool = False,
) -> None:  # fmt: skip
    """Move parameters and their moments by a step of Lion, in place.

    Args:
        params: Of any shapes; contiguous float32 and bfloat16 run the kernel, others the reference.
        grads: Of their parameters' shapes, and for the kernel of their dtypes.
        means: The moments, float32 (float64 for float64).
        lr: The learning rate: every element moves by it.
        betas: What of the moment is in the direction, and what the moment keeps of itself.
        weight_decay: Times `lr`, what a parameter loses of itself.
        maximize: Whether to go up instead of down.

    Raises:
        ArgumentError: lists, shapes or dtypes do not fit, or a number is out of its range.

    Example:
        >>> p, m = torch.ones(2), torch.zeros(2)
        >>> lion_([p], [torch.tensor([2.0, -3.0])], [m], lr=0.5)
        >>> p
        tensor([0.5000, 1.5000])
    """
    op = "optim.lion_"
    _check_tensors(op, params, grads, means=means)
    _ops.check_rates(op, lr, *betas, weight_decay)
    served, others = _split(params, grads, [means])
    numbers = (lr, *betas, weight_decay, maximize)
    if served and not _run("optim_lion_many", served, params, grads, [means], *numbers):
        others = list(range(len(params)))
    for i in others:
        moved, mean = reference.lion(params[i], grads[i], means[i], *numbers)
        params[i].copy_(moved)
        means[i].copy_(mean)


@torch.compiler.disable  # type: ignore[untyped-decorator]
@torch.no_grad()
def adafactor_(
    params: _Tensors, grads: _Tensors, rows: Sequence[torch.Tensor | None], columns: Sequence[torch.Tensor | None],
    variances: Sequence[torch.Tensor | None], *, steps: Sequence[float], lr: float = 1e-2, beta2_decay: float = -0.8,
    eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, maximize: bool = False,
) -> None:  # fmt: skip
    """Move parameters and their means of squares by a step of Adafactor, in place.

    Args:
        params: Contiguous float32 and bfloat16 matrices run the kernel, a call for each, others the reference.
        grads: Of their parameters' shapes, and for the kernel of their dtypes.
        rows: Of a parameter (..., rows, columns), (..., rows, 1) float32: means of squares. None for a vector.
        columns: (..., 1, columns), likewise.
        variances: Of a vector, its means of squares, of its shape. None for others.
        steps: The number of this step for each parameter, from 1.
        lr: The largest relative size of a step.
        beta2_decay: The power of the step that says how much of the new squares their means take.
        eps: What keeps variances above zero, by default float32's precision, and parameters' sizes.
        d: The largest root mean square of an update.
        weight_decay: Times `lr`, what a parameter loses of itself.
        maximize: Whether to go up instead of down.

    Raises:
        ArgumentError: lists, shapes or dtypes do not fit, or a number is out of its range.

    Example:
        >>> p, row, column = torch.ones(1, 2), torch.zeros(1, 1), torch.zeros(1, 2)
        >>> adafactor_([p], [torch.tensor([[2.0, -2.0]])], [row], [column], [None], steps=[1], lr=0.5)
        >>> p
        tensor([[0.5000, 1.5000]])
    """
    op = "optim.adafactor_"
    _check_lists(op, params, grads=grads, rows=rows, columns=columns, variances=variances, steps=steps)
    for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
        _ops.check_gradient(op, param, grad)
        eps1 = torch.finfo(_ops.state_dtype(param)).eps if eps[0] is None else eps[0]
        numbers = (steps[i], lr, beta2_decay, eps1, eps[1], d, weight_decay, maximize)
        row, column, variance = rows[i], columns[i], variances[i]
        if variance is not None:
            _ops.check_state(op, "a variance", variance, param, tuple(param.shape))
            _ops.check_adafactor(op, steps[i], lr, eps[1], d, weight_decay)
            new = reference.adafactor_vector(param, grad, variance, *numbers)
            for old, moved in zip((param, variance), new, strict=True):
                old.copy_(moved)
        elif row is not None and column is not None:
            _matrix(param, grad, row, column, numbers)
        else:
            refuse(op, "the state of a parameter", "missing", "a row and a column, or a variance")


def _matrix(
    param: torch.Tensor,
    grad: torch.Tensor,
    row: torch.Tensor,
    column: torch.Tensor,
    numbers: tuple[float, ...],
) -> None:
    given: tuple[Any, ...] = (param, grad, row, column, *numbers)
    _ops.adafactor.check(*given)
    entry = _ops.KERNEL.function("optim_adafactor") if _ops.adafactor.serves(*given) is None else None
    if entry is not None:
        entry(*given, param, row, column)
        for one in (param, row, column):
            torch.autograd.graph.increment_version(one)
        return
    for old, moved in zip((param, row, column), reference.adafactor(*given), strict=True):
        old.copy_(moved)
