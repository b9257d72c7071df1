"""Run a reference in float64 with its choices made as rounded values would make them.

A maximum has one winner, a comparison one answer; where two values are nearer than rounding tells apart, honest
kernels choose differently, and a gradient then goes another way: a jump that a few random perturbations may miss, and
that the choice of the native op does not show.
Random perturbations of the values (`Rounding`) are recorded where something is chosen, and the choices are made again
on values that are several times as far off, as an honest kernel's may be. Nothing else is moved, so that what changes
is the jumps alone.

Covers: extremes with their indices (of a row, of windows, sorted), comparisons, signs, rounding to whole numbers.
Does not cover: choices of the reference's own Python, and native code of the user.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._rounding import Decomposed, Rounding

_OF_WINDOWS = {
    "max_pool2d_with_indices": 2, "max_pool3d_with_indices": 3, "adaptive_max_pool2d": 2, "adaptive_max_pool3d": 3,
    "fractional_max_pool2d": 2, "fractional_max_pool3d": 3,
}  # fmt: skip
"""Extremes of windows, and over how many axes their indices count."""
_OF_AXIS = frozenset(
    {"max", "min", "sort", "topk", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin"}
)
"""What gives values and their indices along an axis; without an axis, values alone."""
_VALUES = frozenset({"amax", "amin", "max", "min"})
_OF_TWO = {"maximum": torch.ge, "minimum": torch.le, "fmax": torch.ge, "fmin": torch.le}
_DISCRETE = frozenset({
    "gt", "ge", "lt", "le", "sign", "sgn", "signbit", "floor", "ceil", "round", "trunc", "argmax", "argmin", "argsort",
})  # fmt: skip
"""What gives a whole number or an answer of yes or no; equality is none that rounding tells."""
CHOICES = frozenset({*_OF_WINDOWS, *_OF_AXIS, *_VALUES, *_OF_TWO, *_DISCRETE})
"""Operators that choose."""
_MOST_BYTES = 1 << 28
"""Values that are recorded; beyond, choices are made on exact ones."""

Values = list[tuple[Tensor, ...]]
"""Of each choice in turn: its first two arguments, as far as they are float tensors."""


class Recorded(Rounding):
    """A mode in which every step is rounded, and what is chosen from is kept.

    Example:
        >>> with Recorded(2.0**-23, seed=0) as rounded:
        ...     _ = (torch.tensor([2.0]).double() / 3).sign()
        >>> [len(values) for values in rounded.values]
        [1]
    """

    def __init__(self, eps: float, seed: int) -> None:
        super().__init__(eps, seed)
        self.values: Values = []
        self._left = _MOST_BYTES

    def step(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Keep what is chosen from, and run the operator."""
        if func.overloadpacket.__name__ in CHOICES and self._left > 0:
            unrounded = self._constants.exact(func, args)
            values = tuple(a.clone() for a in _floats(args if unrounded is None else unrounded))
            self._left -= sum(v.nbytes for v in values)
            self.values.append(values)
        return super().step(func, types, args, kwargs)


class Turned(Decomposed):
    """A mode in float64 in which values are exact and choices are made on values that are off.

    Args:
        values: What a rounded call of the same reference chose from.
        times: How many times as far off as these the values are.

    Example:
        >>> x = torch.tensor([1.0, 2.0, 2.0 + 1e-9], dtype=torch.float64)
        >>> with Turned([(x + torch.tensor([0.0, 1e-9, 0.0]),)], times=4.0):
        ...     x.argmax(), x.argmax()
        (tensor(1), tensor(2))
    """

    def __init__(self, values: Values, times: float) -> None:
        super().__init__()
        self._values, self._times = iter(values), times

    def step(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator; one that chooses, on what is off."""
        exact, name = super().step(func, types, args, kwargs), func.overloadpacket.__name__
        rounded = next(self._values, ()) if name in CHOICES else ()
        floats = _floats(args)
        if not rounded or [r.shape for r in rounded] != [f.shape for f in floats]:
            return exact
        off = [self._off(f, r) for f, r in zip(floats, rounded, strict=True)]
        if all(torch.equal(o, f) for o, f in zip(off, floats, strict=True)):
            return exact
        moved = iter(off)
        given = tuple(next(moved) if i < 2 and _is_float(a) else a for i, a in enumerate(args))
        call = functools.partial(func, *given, **kwargs)
        if name in _OF_AXIS and isinstance(exact, tuple):
            return _along(_axis(func, args, kwargs), args[0], exact[0], call()[1])
        return _chosen(name, exact, args, given, call)

    def _off(self, exact: Tensor, rounded: Tensor) -> Tensor:
        moved = exact + (rounded - exact).nan_to_num_(0.0, 0.0, 0.0) * self._times
        return torch.where(exact.isfinite(), moved, exact)


def _chosen(
    name: str, exact: Any, args: tuple[Any, ...], off: tuple[Any, ...], call: Callable[[], Any]
) -> Any:
    """Choose among values that are off, and return the exact values of what was chosen."""
    if name in _DISCRETE:
        return call()
    x = args[0]
    if name in _OF_WINDOWS:
        axes, indices = _OF_WINDOWS[name], call()[1]
        values = x.flatten(-axes).gather(-1, indices.flatten(-axes)).view(indices.shape)
        return values, indices
    if name in _OF_TWO or (len(args) > 1 and isinstance(args[1], Tensor)):
        ahead = _OF_TWO[{"max": "maximum", "min": "minimum"}.get(name, name)]
        chosen = torch.where(ahead(off[0], off[1]), x, args[1])
        return torch.where(x.isnan() | args[1].isnan(), exact, chosen)
    if name in _VALUES:
        return _extreme(name, exact, args, off, call())
    return exact


def _axis(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the axis that an operator was given, by position or name; the last where it was given none."""
    place = [a.name for a in func._schema.arguments].index("dim")
    return int(kwargs.get("dim", args[place] if len(args) > place else -1))


def _along(axis: int, x: Tensor, exact: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return values by their indices along an axis that may be gone from the result."""
    if not x.dim():
        return exact, indices
    gone = indices.dim() < x.dim()
    found = x.gather(axis, indices.unsqueeze(axis) if gone else indices)
    return found.squeeze(axis) if gone else found, indices


def _extreme(name: str, exact: Tensor, args: tuple[Any, ...], off: tuple[Any, ...], most: Tensor) -> Tensor:
    """Return the exact value of an extreme over some axes, or over all."""
    x, dims = args[0], args[1] if len(args) > 1 else ()
    dims = [dims] if isinstance(dims, int) else list(dims) or list(range(x.dim()))
    kept = [1 if d in {i % x.dim() for i in dims} else n for d, n in enumerate(x.shape)]
    sign = 1 if name.endswith("max") else -1
    chosen = torch.where(off[0] == most.reshape(kept), x * sign, -torch.inf).amax(dims) * sign
    return torch.where(exact.isfinite(), chosen.reshape(exact.shape), exact)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype is torch.float64


def _floats(args: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return the float tensors among the first two arguments."""
    return tuple(a for a in args[:2] if _is_float(a))
