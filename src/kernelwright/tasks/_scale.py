"""The number by which a module multiplied a weight before it kept it.

Rounding leaves a short interval open for it. What is told is a number of that interval that gives the same bits for
every element, as a factor or as a divisor, the one of the fewest digits first.

Covers: floats of 16, 32 and 64 bits; negative numbers; divisors, such as the root of a size.
Does not cover: weights of one value, of which nothing can be told: any tensor of one value would do; products that are
too small or too large for their dtype.
"""

import math
from collections.abc import Iterator, Sequence

import torch

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_SIGNIFICANT_BITS = 53
_NEIGHBOURS = (0, -1, 1, -2, 2)


def scale_of(weight: torch.Tensor, held: torch.Tensor) -> float:
    """Return by which number a weight is multiplied in another tensor, element by element; 0 if there is none.

    Args:
        weight: The weight, of any sizes.
        held: What may hold it, of the same dtype and as many elements, in the same order.

    Example:
        >>> weight = torch.tensor([0.3, -1.7, 2.9])
        >>> scale_of(weight, weight * 0.125), scale_of(weight, weight / 3) == 1 / 3, scale_of(weight, weight**2)
        (0.125, True, 0.0)
    """
    one, other = weight.detach().reshape(-1), held.detach().reshape(-1)
    there = one != 0
    if weight.dtype not in _FLOATS or not torch.equal(there, other != 0):
        return 0.0
    x, y = one[there].double(), other[there].double()
    if not len(x) or bool((x == x[0]).all()):
        return 0.0
    ratio = y / x
    open_by = ratio.abs() * torch.finfo(weight.dtype).eps
    low, high = float((ratio - open_by).max()), float((ratio + open_by).min())
    if not (math.isfinite(low) and math.isfinite(high) and low <= high and low * high > 0):
        return 0.0
    factors = (s for s in _numbers(low, high, weight.dtype) if torch.equal(one * s, other))
    divisors = (1 / s for s in _numbers(1 / high, 1 / low, weight.dtype) if torch.equal(one / s, other))
    return next(factors, None) or next(divisors, 0.0)


def may_be_scaled(weight: Sequence[float], held: Sequence[float], dtype: torch.dtype) -> bool:
    """Whether there may be such a number by a few elements of both: quickly, as most pairs that are tried have none.

    Example:
        >>> may_be_scaled([0.5, -1.5, 0.0], [3.5, -10.5, 0.0], torch.float32)
        True
        >>> may_be_scaled([0.5, -1.5, 0.0], [1.5, -0.5, 1.0], torch.float32)
        False
    """
    if dtype not in _FLOATS:
        return False
    pairs = list(zip(weight, held, strict=True))
    ratios = [y / x for x, y in pairs if x]
    spread = 4 * torch.finfo(dtype).eps * max(map(abs, ratios), default=0.0)
    return all((x == 0) == (y == 0) for x, y in pairs) and (not ratios or max(ratios) - min(ratios) <= spread)


def _numbers(low: float, high: float, dtype: torch.dtype) -> Iterator[float]:
    """Yield numbers of an interval: the one of fewest bits, those near its middle that torch multiplies by.

    Example:
        >>> next(_numbers(0.4, 0.7, torch.float32)), next(_numbers(-3.1, -2.9, torch.float32))
        (0.5, -3.0)
    """
    middle = (low + high) / 2
    fraction, exponent = math.frexp(middle)
    for bits in range(1, _SIGNIFICANT_BITS + 1):
        rounded = math.ldexp(round(math.ldexp(fraction, bits)), exponent - bits)
        if low <= rounded <= high:
            yield rounded
            break
    kept = torch.float64 if dtype is torch.float64 else torch.float32
    at = torch.tensor(middle, dtype=kept).double().item()
    step = math.ldexp(torch.finfo(kept).eps, math.frexp(at)[1] - 1)
    yield from (at + step * away for away in _NEIGHBOURS)
