"""Steps of many parameters in place: in one call of a kernel, or where it does not serve them one by one.

Each list has one tensor for each parameter. A parameter's state is float32, or wider where the parameter is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import torch

from .._core import checked, refuse
from .._core.gpu import form_for, gpu_of, on
from . import _ops, reference

_Tensors = Sequence[torch.Tensor]
_Maybes = Sequence[torch.Tensor | None]


@dataclass(frozen=True)
class Step:
    """A kernel that moves many parameters in one call.

    It takes the numbers that all steps have in common, then the row of each parameter: itself, its gradient, its states
    and, last, where there is one, the number of its step or the counter of its steps, which it then counts.

    Example:
        >>> LION.columns, LION.moved
        (3, (0, 2))
    """

    symbol: str
    columns: int
    """The length of a row."""
    moved: tuple[int, ...]
    """Which of a row are written."""

    def run(self, numbers: Sequence[float], rows: list[Any]) -> bool:
        """Move parameters, given by their rows; False, and nothing has moved, if not all are served."""
        device = gpu_of(rows)
        if device is not None:
            return self._on_gpu(device, numbers, rows)
        entry = _ops.KERNEL.function(self.symbol)
        if entry is None:
            return False
        try:
            entry(*numbers, *rows)
        except RuntimeError:  # not served: the kernel looks at all rows before it moves any
            return False
        self._written(rows)
        return True

    def _on_gpu(self, device: torch.device, numbers: Sequence[float], rows: list[Any]) -> bool:
        folder = _ops.KERNEL.file.parent
        form, _ = form_for(folder, self.symbol, device, (numbers, rows))
        if form is None:
            return False
        with on(device):
            form.run(numbers, rows)
        self._written(rows)
        return True

    def _written(self, rows: list[Any]) -> None:
        """Tell autograd what was moved."""
        moved = [one for at in self.moved for one in rows[at :: self.columns]]
        torch.autograd.graph.increment_version([one for one in moved if one is not None])

    def each(
        self,
        numbers: Sequence[float],
        rows: list[Any],
        reference: Callable[..., Sequence[torch.Tensor | None]],
    ) -> None:
        """Move parameters one by one, by the reference where the kernel does not serve one."""
        with torch.no_grad():
            for at in range(0, len(rows), self.columns):
                row = rows[at : at + self.columns]
                if self.run(numbers, row):
                    continue
                for place, new in zip(self.moved, reference(*row, *numbers), strict=True):
                    if new is not None and row[place] is not None:
                        row[place].copy_(new)


ADAMW = Step("optim_adamw_many", 6, (0, 2, 3, 4))
"""Rows: parameter, gradient, mean, square, largest or None, step."""
LION = Step("optim_lion_many", 3, (0, 2))
"""Rows: parameter, gradient, mean."""
ADAFACTOR = Step("optim_adafactor_many", 5, (0, 2, 3))
"""Rows: parameter, gradient, row and column, or variance and None, step."""


def _flat(*lists: Iterable[Any]) -> list[Any]:
    return list(chain.from_iterable(zip(*lists, strict=False)))


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
        refuse(
            op,
            "params",
            "given twice, or a state is",
            "each parameter and state once, since they are written",
        )


@torch.compiler.disable  # type: ignore[untyped-decorator]
@checked
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
    _check_lists(op, params, grads=grads, means=means, squares=squares, largest=largest, steps=steps)
    _ops.check_rates(op, lr, *betas, weight_decay)
    _ops.check_number(op, "eps", eps, 0)
    numbers = (*map(float, (lr, *betas, eps, weight_decay)), maximize)
    rows = _flat(params, grads, means, squares, repeat(None) if largest is None else largest, steps)
    if ADAMW.run(numbers, rows):
        return
    _check_tensors(op, params, grads, means=means, squares=squares, largest=largest)
    for step in steps:
        _ops.check_step(op, "steps", step)
    ADAMW.each(numbers, rows, reference.adamw)


@torch.compiler.disable  # type: ignore[untyped-decorator]
@checked
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
    _check_lists(op, params, grads=grads, means=means)
    _ops.check_rates(op, lr, *betas, weight_decay)
    numbers, rows = (*map(float, (lr, *betas, weight_decay)), maximize), _flat(params, grads, means)
    if not LION.run(numbers, rows):
        _check_tensors(op, params, grads, means=means)
        LION.each(numbers, rows, reference.lion)


@torch.compiler.disable  # type: ignore[untyped-decorator]
@checked
def adafactor_(
    params: _Tensors, grads: _Tensors, rows: Sequence[torch.Tensor | None], columns: Sequence[torch.Tensor | None],
    variances: Sequence[torch.Tensor | None], *, steps: Sequence[float], lr: float = 1e-2, beta2_decay: float = -0.8,
    eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, maximize: bool = False,
) -> None:  # fmt: skip
    """Move parameters and their means of squares by a step of Adafactor, in place.

    Args:
        params: Contiguous float32 and bfloat16 of two axes or less run the kernel, others the reference.
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
    _ops.check_adafactor(op, lr, beta2_decay, {"eps[0]": eps[0], "eps[1]": eps[1]}, d, weight_decay)
    first = [row if variance is None else variance for row, variance in zip(rows, variances, strict=True)]
    columns = [
        column if variance is None else None for column, variance in zip(columns, variances, strict=True)
    ]
    narrow = torch.finfo(torch.float32).eps if eps[0] is None else eps[0]
    numbers = (*map(float, (lr, beta2_decay, narrow, eps[1], d, weight_decay)), maximize)
    of_each = _flat(params, grads, first, columns, steps)
    if ADAFACTOR.run(numbers, of_each):
        return
    for param, grad, row, column, step in zip(params, grads, first, columns, steps, strict=True):
        _check_factored(op, param, grad, row, column)
        _ops.check_step(op, "steps", step)

    def moved(
        param: torch.Tensor, grad: torch.Tensor, row: torch.Tensor, column: torch.Tensor | None, *rest: Any
    ) -> Sequence[torch.Tensor | None]:
        *before, _, eps2, d, weight_decay, maximize = rest
        eps1 = torch.finfo(_ops.state_dtype(param)).eps if eps[0] is None else eps[0]
        rest = (*before, eps1, eps2, d, weight_decay, maximize)
        if column is None:
            return *reference.adafactor_vector(param, grad, row, *rest), None
        return reference.adafactor(param, grad, row, column, *rest)

    ADAFACTOR.each(numbers, of_each, moved)


def _check_factored(op: str, param: Any, grad: Any, row: Any, column: Any) -> None:
    _ops.check_gradient(op, param, grad)
    if row is None or (column is None and param.dim() > 1 and tuple(row.shape) != tuple(param.shape)):
        refuse(op, "rows", "without a state of a parameter", "a row and a column, or a variance")
    if column is None:
        _ops.check_state(op, "variance", row, param, tuple(param.shape))
    else:
        _ops.check_factors(op, param, row, column)
