"""Orders in which float32 kernels add up, and moments and products made of them.

Sums add `(terms, ...)` to `(...)`; `_evaluation` evaluates a reference with them.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

_FEW = 8
"""Columns below which numpy might add along the terms in an order of its own."""
_AT_ONCE = 1 << 22
"""Products that are kept at a time while they are added up."""
_MOST_UPDATES = 1 << 14
"""Terms up to which moments are updated by each of them in turn; more are gone over twice."""
_CANCELLED = 4.0
"""Mean square over variance from which a kernel that takes both in one pass goes over the terms again."""

Sum = Callable[[Tensor], Tensor]
"""Adds `(terms, ...)` to `(...)`."""
Moments = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Turns `(terms, ...)` into the mean and the sum of squared deviations from it, both `(...)`."""
Product = Callable[[Tensor, Tensor], Tensor]
"""Multiplies `(batch, rows, terms)` by `(batch, terms, columns)`."""


def serial(x: Tensor) -> Tensor:
    """Add the first axis in float32, one term after another.

    Example:
        >>> bool((serial(torch.full((4096,), 0.1)) - 409.6).abs() > 0.01)
        True
    """
    terms = x.detach().contiguous().flatten(1) if x.dim() > 1 else x.detach().contiguous()[:, None]
    with np.errstate(all="ignore"):
        few = terms.shape[1] < _FEW or terms.shape[0] < 2
        if not terms.numel():
            return x.sum(0)
        total = np.add.accumulate(terms.numpy(), 0)[-1] if few else np.add.reduce(terms.numpy(), 0)
    return torch.from_numpy(np.ascontiguousarray(total)).view(x.shape[1:])


def reversed_serial(x: Tensor) -> Tensor:
    """Add the first axis one term after another, the last one first.

    Example:
        >>> reversed_serial(torch.tensor([1.0, 2.0**24, -(2.0**24)]))
        tensor(1.)
    """
    return serial(x.flip(0))


def pairwise(x: Tensor) -> Tensor:
    """Add neighbours until one is left.

    Example:
        >>> pairwise(torch.arange(5.0))
        tensor(10.)
    """
    while x.shape[0] > 1:
        if x.shape[0] % 2:
            x = torch.cat([x, torch.zeros_like(x[:1])])
        x = x[::2] + x[1::2]
    return x[0]


def two_pass(add: Sum) -> Moments:
    """Make moments of a sum: first the mean, then the squares of what is off it.

    Example:
        >>> two_pass(serial)(torch.tensor([1.0, 2.0, 3.0]))
        (tensor(2.), tensor(2.))
    """

    def moments(x: Tensor) -> tuple[Tensor, Tensor]:
        mean = add(x) / x.shape[0]
        moved = x - mean
        return mean, add(moved * moved)

    return moments


def welford(x: Tensor) -> tuple[Tensor, Tensor]:
    """Update mean and squared deviations with one term after another.

    Example:
        >>> welford(torch.tensor([1.0, 2.0, 3.0]))
        (tensor(2.), tensor(2.))
    """
    if x.shape[0] > _MOST_UPDATES:
        return two_pass(serial)(x)
    mean, squares = torch.zeros_like(x[0]), torch.zeros_like(x[0])
    for count, term in enumerate(x, 1):
        off = term - mean
        mean = mean + off / count
        squares.add_(off.mul_(term - mean))
    return mean, squares


def shifted(x: Tensor) -> tuple[Tensor, Tensor]:
    """Add up what every term is more than the first one, and its square, in one pass.

    Example:
        >>> shifted(torch.tensor([100.0, 101.0, 99.0]))
        (tensor(100.), tensor(2.))
    """
    return moments_from(x, x[0])


def moments_from(x: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Take moments about a value in one pass; where the squares cancel, go over the terms again.

    Example:
        >>> moments_from(torch.tensor([1.0, 2.0, 3.0]), torch.tensor(2.0))
        (tensor(2.), tensor(2.))
    """
    moved, terms = x - shift, x.shape[0]
    total, squares = serial(moved), serial(moved * moved)
    mean, left = total / terms, squares - total * (total / terms)
    well, again = left * _CANCELLED > squares, two_pass(serial)(x)
    return torch.where(well, shift + mean, again[0]), torch.where(well, left, again[1])


def one_pass(x: Tensor) -> tuple[Tensor, Tensor]:
    """Add up every term and its square in one pass.

    Example:
        >>> one_pass(torch.tensor([1.0, 2.0, 3.0]))
        (tensor(2.), tensor(2.))
    """
    return moments_from(x, torch.zeros_like(x[0]))


def product_by(add: Sum) -> Product:
    """Make a product of a sum: all terms of an element are multiplied, then added.

    Example:
        >>> product_by(serial)(torch.ones(1, 2, 5), torch.ones(1, 5, 3)).shape
        torch.Size([1, 2, 3])
    """

    def product(left: Tensor, right: Tensor) -> Tensor:
        rows = max(1, _AT_ONCE // max(1, left.shape[0] * right.numel() // max(1, right.shape[0])))
        right = right.permute(1, 0, 2)[:, :, None]
        parts = [add(part.permute(2, 0, 1)[..., None] * right) for part in torch.split(left, rows, 1)]
        return torch.cat(parts, 1)

    return product


def serial_prefixes(x: Tensor) -> Tensor:
    """Add up every prefix of the first axis in float32, one term after another.

    Example:
        >>> serial_prefixes(torch.ones(3))
        tensor([1., 2., 3.])
    """
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.add.accumulate(x.detach().contiguous().numpy(), axis=0))
