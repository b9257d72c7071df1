"""Run a reference in float64 as a kernel would that leaves out what is multiplied by zero.

A product with a diagonal, a triangle or a masked row of weights multiplies zeros by whatever stands opposite, and zero
times infinity is NaN. A kernel that skips the zeros gives what is left: a right evaluation too.

The other way round, `gelu` far below zero is tiny, but `1 + erf(x)` rounds to zero there, in float64 too. A kernel that
has the tail multiplies an infinity by a number.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._rounding import Decomposed
from ._summation_error import MATRICES

Product = Callable[[Tensor, Tensor], Tensor]


class SkippedZeros(Decomposed):
    """A mode in float64 in which zero times anything is zero inside products, and `gelu` does not round to zero.

    Covers: NaN and infinities opposite a zero of a matrix product, a convolution or attention, or opposite `gelu`.
    Does not cover: multiplications that the reference writes element by element.

    Example:
        >>> with SkippedZeros():
        ...     torch.tensor([[0.0, 2.0]]).double() @ torch.tensor([[float("inf")], [1.0]]).double()
        tensor([[2.]], dtype=torch.float64)
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator; `gelu` by its tail, in one step."""
        if func is torch.ops.aten.gelu.default:
            return _gelu(args[0], **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def step(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operator, without the zeros' products where it is one and something is not finite."""
        name = func.overloadpacket.__name__
        factors: Sequence[Tensor] = ()
        if name in MATRICES:
            factors = args[MATRICES[name] :][:2]
        elif name == "convolution":
            factors = args[:2]
        if all(bool(f.isfinite().all()) for f in factors):
            return super().step(func, types, args, kwargs)
        if name == "convolution":
            found = spared(lambda x, w: torch.convolution(x, w, None, *args[3:]), *factors)
            return found if args[2] is None else found + args[2].view(-1, *(1 for _ in args[3]))
        found = spared(torch.matmul, *factors)
        if not MATRICES[name]:
            return found
        return kwargs.get("beta", 1) * args[0] + kwargs.get("alpha", 1) * found


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Return `gelu` without a difference from one."""
    if approximate == "none":
        tail: Tensor = torch.special.erfc(-x * math.sqrt(0.5))
        return x * 0.5 * tail
    return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))


def spared(product: Product, left: Tensor, right: Tensor) -> Tensor:
    """Return the product of two tensors, of which some elements are not finite, with zero times anything zero."""
    signs = [t.sign().nan_to_num(0.0) for t in (left, right)]
    infinite = [s * t.isinf() for s, t in zip(signs, (left, right), strict=True)]
    there, lost = ([f(t).to(left.dtype) for t in (left, right)] for f in (lambda t: t != 0, torch.isnan))
    net = product(infinite[0], signs[1]) + product(signs[0], infinite[1])
    count = product(infinite[0].abs(), signs[1].abs()) + product(signs[0].abs(), infinite[1].abs())
    nan = (product(lost[0], there[1]) + product(there[0], lost[1]) > 0) | ((count > net.abs()) & (count > 0))
    total = product(*(t.nan_to_num(0.0, 0.0, 0.0) for t in (left, right)))
    return torch.where(count > 0, net * torch.inf, total).masked_fill_(nan, torch.nan)
