"""Honest ways to write a reference again, each a dispatch mode that serves every problem.

A rewriting computes in float32 and rounds to the declared dtype once, at the end. It differs from torch in how terms
are added, how variances, softmax and convolutions are computed, how precise exp, tanh and erf are, or in fusing a
multiplication and an addition into one rounding. Kernels that would lose everything on some values (variance in one
pass where it cancels, Winograd where an input is not finite) fall back there, as honest ones do.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kernelwright.tasks.numerics._evaluation import (
    Arithmetic,
    Evaluation,
    unfolded,
)
from kernelwright.tasks.numerics._orders import product_by, reversed_serial, serial, serial_prefixes

from .flash import Flash, HalfFactors
from .summation import MOMENTS, SUMS, fused, split_k, tensor_core

_MOST_ULP = 2
"""Units in the last place by which a fast function may be off."""
_ESTIMATED = 1 << 11
"""An estimate of a reciprocal root has 12 bits: the others of 23 are cut off."""
_TILE = 16
"""Elements that an online softmax takes at a time."""


class Functions(Evaluation):
    """Compute exp, tanh, erf and sigmoid with errors of up to two units in the last place, the same at every call."""

    def replaced(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Take the float64 function and move what it rounds to."""
        if name == "sigmoid":
            return 1 / (1 + _off(args[0], (-args[0].double()).exp().float()))
        if name in ("exp", "tanh", "erf"):
            y = _off(args[0], func(args[0].double()).float())
            return y if name == "exp" else y.clamp_(-1, 1)
        return super().replaced(name, func, args, kwargs)


def _off(x: Tensor, y: Tensor) -> Tensor:
    """Move each value by -2 to 2 units in the last place, chosen by the bits of its argument; a saturated one stays."""
    bits = x.contiguous().view(torch.int32).to(torch.int64)
    step = (bits * 2_654_435_761 >> 13) % (2 * _MOST_ULP + 1) - _MOST_ULP
    moved = (y.contiguous().view(torch.int32) + step.to(torch.int32)).view(torch.float32)
    normal = y.isfinite() & (y.abs() != 1) & (y.abs() > 1e-36) & (y.abs() < 1e38)
    return torch.where(normal, moved, y)


class Newton(Evaluation):
    """Refine an estimate of 12 bits of a reciprocal root by one step of Newton's."""

    def replaced(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Estimate and refine; what is zero or infinite needs no step."""
        if name != "rsqrt":
            return super().replaced(name, func, args, kwargs)
        x, exact = args[0], func(args[0])
        y = (exact.contiguous().view(torch.int32) & ~(_ESTIMATED - 1)).view(torch.float32)
        refined = y * (1.5 - 0.5 * x * y * y)
        return torch.where((x > 1e-36) & (x < 1e36), refined, exact)


class Online(Evaluation):
    """Take maximum and sum of a softmax in one pass, rescaling the sum when the maximum grows."""

    def replaced(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute softmax, its logarithm and logsumexp."""
        if name in ("_softmax", "_safe_softmax", "_log_softmax") and args[0].dim() and args[0].numel():
            x = args[0].movedim(args[1], 0)
            most, total = _online(x)
            if name == "_log_softmax":
                return ((x - most) - total.log()).movedim(0, args[1])
            y = (x - most).exp() / total
            dead = (x == -torch.inf).all(0, keepdim=True) if name == "_safe_softmax" else torch.tensor(False)
            return torch.where(dead, 0.0, y).movedim(0, args[1])
        return super().replaced(name, func, args, kwargs)


def _online(x: Tensor) -> tuple[Tensor, Tensor]:
    most = torch.full_like(x[0], -torch.inf)
    total = torch.zeros_like(x[0])
    for part in x.split(_TILE):
        larger = torch.maximum(most, part.amax(0))
        scale = torch.where(larger == most, 1.0, (most - larger).exp())
        seen = torch.where(part == -torch.inf, 0.0, (part - larger).exp())
        total, most = total * scale + serial(seen), larger
    total = torch.where(most == -torch.inf, torch.nan, total)
    return most, total


class Fused(Evaluation):
    """Round a multiplication and the addition that follows it once."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        super().__init__(arithmetic)
        self._product: tuple[Tensor, Any, Any, tuple[int, ...]] | None = None

    def replaced(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Remember the last product, and add to it unrounded."""
        if name == "mul":
            y = func(*args, **kwargs)
            self._product = (y, *args[:2], _versions(args[:2])) if _plain(args) else None
            return y
        if name in ("add", "sub") and self._product is not None and _plain(args) and not kwargs:
            y, a, b, versions = self._product
            if versions == _versions((a, b)) and (args[0] is y or args[1] is y):
                exact = _wide(a) * _wide(b)
                wide = [exact if t is y else _wide(t) for t in args[:2]]
                return func(*wide).float()
        return super().replaced(name, func, args, kwargs)


def _plain(args: tuple[Any, ...]) -> bool:
    return len(args) == 2 and all(not isinstance(a, Tensor) or a.dtype is torch.float32 for a in args)


def _versions(values: Any) -> tuple[int, ...]:
    return tuple(v._version for v in values if isinstance(v, Tensor))


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) else value


class Winograd(Evaluation):
    """Convolve 3 by 3 windows in tiles of 2 by 2 results, by products of transformed tiles.

    Source: Lavin, Gray, Fast Algorithms for Convolutional Neural Networks (2016), section 4.1.
    """

    def replaced(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Replace plain two-dimensional convolutions of finite inputs."""
        if name == "convolution" and args[1].shape[2:] == (3, 3) and args[0].dim() == 4 and not args[6]:
            x, weight, bias, stride, padding, dilation, _, _, groups = args
            simple = {*stride, *dilation} == {1} and groups == 1 and bool(x.isfinite().all())
            if simple and bool(weight.isfinite().all()):
                y = _winograd(x, weight, list(padding) * (1 if len(padding) == 2 else 2))
                return y if bias is None else y + bias.view(1, -1, 1, 1)
        return super().replaced(name, func, args, kwargs)


_B = torch.tensor([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], dtype=torch.float32)
_G = torch.tensor([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], dtype=torch.float32)
_A = torch.tensor([[1, 1, 1, 0], [0, 1, -1, -1]], dtype=torch.float32)


def _winograd(x: Tensor, weight: Tensor, padding: list[int]) -> Tensor:
    height, width = (n + 2 * p - 2 for n, p in zip(x.shape[2:], padding, strict=True))
    high, wide = (padding[i] for i in (0, 1))
    x = torch.nn.functional.pad(x, (wide, wide + width % 2, high, high + height % 2))
    tiles = unfolded(x, (4, 4), (2, 2), (1, 1))  # batch, channels, 4, 4, rows, columns
    seen = torch.einsum("ij,bcjkrs,lk->bcilrs", _B, tiles, _B)
    taps = torch.einsum("ij,ocjk,lk->ocil", _G, weight, _G)
    product = torch.einsum("ocil,bcilrs->boilrs", taps, seen)
    y = torch.einsum("pi,boilrs,ql->borpsq", _A, product, _A)
    return y.flatten(4, 5).flatten(2, 3)[:, :, :height, :width]


REWRITINGS: dict[str, Callable[[], Evaluation]] = {
    "serial": lambda: Evaluation(Arithmetic.ordered(serial, prefixes=serial_prefixes)),
    "reversed": lambda: Evaluation(Arithmetic.ordered(reversed_serial)),
    **{n: lambda s=s: Evaluation(Arithmetic.ordered(s)) for n, s in SUMS.items()},  # type: ignore[misc]
    **{n: lambda m=m: Evaluation(Arithmetic(moments=m)) for n, m in MOMENTS.items()},  # type: ignore[misc]
    "fma": lambda: Fused(Arithmetic(multiply=fused)),
    "tensor-core": lambda: Evaluation(Arithmetic(multiply=tensor_core)),
    "split-k": lambda: Evaluation(Arithmetic(multiply=split_k)),
    "im2col": lambda: Evaluation(Arithmetic(multiply=torch.matmul)),
    "winograd": lambda: Winograd(Arithmetic()),
    "online-softmax": lambda: Online(Arithmetic()),
    "functions": lambda: Functions(Arithmetic()),
    "newton": lambda: Newton(Arithmetic()),
    "flash": Flash,
    "half-factors": lambda: HalfFactors(Arithmetic()),
    "fast": lambda: Functions(
        Arithmetic(add=SUMS["lanes"], moments=MOMENTS["welford-lanes"], multiply=product_by(SUMS["lanes"]))
    ),
}
"""A fresh mode by the rewriting's name; `fast` is what a vectorised kernel does of all at once."""
