"""The native model's own noise: what it computes in float64, and itself again with honest rounding of each step."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ...system.dispatch_mode import DispatchMode
from ...tasks.numerics._evaluation import MEASURED, Evaluation
from ...tasks.numerics._oracle import in_float64, widen
from ...tasks.numerics._recurrent import LSTM, lstm_layer
from ...tasks.numerics._summation_error import MATRICES

_SUMS = frozenset({"sum", "mean"})
_EXACT = frozenset({
    "_to_copy", "clone", "copy_", "cat", "stack", "where", "masked_fill", "embedding", "gather", "index",
    "index_select", "neg", "abs", "relu", "max", "min", "amax", "amin", "argmax", "maximum", "minimum", "clamp", "sort",
    "topk", "tril", "triu", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "slice_scatter",
    "index_copy", "scatter", "repeat", "flip", "roll", "constant_pad_nd",
})  # fmt: skip
"""Operators that round nothing."""

Way = Callable[[], Any]
"""Makes a context in which the native model computes in another honest way."""


class Reordered(DispatchMode):
    """Run each step at its own dtype in another order: sums permuted, results rounded up or down at random.

    Each sum and product of matrices adds its terms in a random order. Any other step is computed wider and rounded to
    one of the two neighbours, each as likely as it is near: what no fair kernel does worse, step by step.

    Example:
        >>> x = torch.full((3, 7), 0.1, dtype=torch.bfloat16)
        >>> with Reordered(seed=0):
        ...     y = x * 3
        >>> bool((y - 0.3).abs().max() < 0.3 * 2**-7)
        True
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator, its terms permuted and its result rounded at random."""
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        if func is torch.ops.aten.mkldnn_rnn_layer.default and args[9] == LSTM:
            with self:
                return lstm_layer(*args)
        dtype = next(filter(None, map(_real_dtype, args)), None)
        if dtype is None or dtype is torch.float64 or func.is_view or name in _EXACT or name.endswith("_"):
            return func(*args, **kwargs)
        half = dtype is not torch.float32
        if name in MATRICES:
            args = self._permuted(MATRICES[name], args)
        elif name in _SUMS and args[0].dim():
            args = (self._shuffled(args), *args[1:])
        wide = torch.float32 if half and (name in MATRICES or name in _SUMS) else torch.float64
        if name in MATRICES and not half:
            return func(*args, **kwargs)
        result = func(
            *(_cast(a, dtype, wide) for a in args), **{k: _cast(v, dtype, wide) for k, v in kwargs.items()}
        )
        return tree_map(lambda y: self._rounded(y, wide, dtype), result)

    def _permuted(self, first: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        left, right = args[first : first + 2]
        order = self._order(left.shape[-1], left.device)
        right = right[order] if right.dim() == 1 else right.index_select(-2, order)
        return (*args[:first], left.index_select(-1, order), right, *args[first + 2 :])

    def _shuffled(self, args: tuple[Any, ...]) -> Tensor:
        x: Tensor = args[0]
        dims = args[1] if len(args) > 1 else None
        if dims is None or not isinstance(dims, int | list | tuple):
            return x.flatten()[self._order(x.numel(), x.device)].view(x.shape)
        for dim in [dims] if isinstance(dims, int) else dims:
            x = x.index_select(dim, self._order(x.shape[dim], x.device))
        return x

    def _order(self, terms: int, device: torch.device) -> Tensor:
        return torch.randperm(terms, generator=self._random).to(device)

    def _rounded(self, y: Any, wide: torch.dtype, dtype: torch.dtype) -> Any:
        """Round to a neighbour: half a unit in the last place at most is added, then to nearest."""
        if isinstance(y, Tensor) and y.dtype is wide.to_complex():
            return torch.view_as_complex(self._rounded(torch.view_as_real(y.resolve_conj()), wide, dtype))
        if not isinstance(y, Tensor) or y.dtype is not wide:
            return y
        _, exponent = torch.frexp(y)
        unit = torch.ldexp(torch.full_like(y, torch.finfo(dtype).eps), (exponent - 1).to(y.dtype))
        moved = y + unit * (torch.rand(y.shape, generator=self._random).to(y) - 0.5)
        return torch.where(y.isfinite() & moved.isfinite(), moved, y).to(dtype)


def _real_dtype(value: Any) -> torch.dtype | None:
    """Return the dtype of a tensor of floats, or of the parts of complex numbers; None for anything else."""
    if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
        return None
    return value.dtype.to_real()


def _cast(value: Any, dtype: torch.dtype, wide: torch.dtype) -> Any:
    if _real_dtype(value) is not dtype:
        return value
    return value.to(wide.to_complex() if value.is_complex() else wide)


def exact_of(model: Any) -> Callable[[Callable[[Any], Any]], Any]:
    """Return what calls with the model in float64, its parameters and buffers as exact as they are stored."""
    wide = _widened(model) if isinstance(model, nn.Module) else model

    def call(use: Callable[[Any], Any]) -> Any:
        return in_float64(lambda: use(wide))

    return call


def _widened(model: nn.Module) -> nn.Module:
    apply: Any = copy.deepcopy(model)._apply  # `double` leaves complex numbers as they are
    wide: nn.Module = apply(widen)
    return wide


def ways_of(dtype: torch.dtype, draws: int, seed: int) -> list[Way]:
    """Return honest ways to compute a model of a dtype.

    The native model with its steps reordered, as often as asked for; in float32 also with serial, reversed, Welford's
    and shifted sums, and functions two units off either way.
    """

    def reordered(number: int) -> Way:
        return lambda: Reordered(seed * 1_000 + number)

    def evaluated(number: int) -> Way:
        return lambda: Evaluation(MEASURED[number])

    ways = [reordered(number) for number in range(draws)]
    return ways + [evaluated(number) for number in range(len(MEASURED))] if dtype is torch.float32 else ways


def dtype_of(model: Any) -> torch.dtype:
    """Return the narrowest float dtype among a model's parameters; float32 where it has none.

    Example:
        >>> dtype_of(nn.Linear(2, 2).bfloat16()), dtype_of(torch.relu)
        (torch.bfloat16, torch.float32)
    """
    found = {p.dtype for p in model.parameters()} if isinstance(model, nn.Module) else set()
    floats = [d for d in found if d.is_floating_point]
    return max(floats, key=lambda d: torch.finfo(d).eps, default=torch.float32)
