"""Evaluate a reference in float32 with sums, variances, products and convolutions in a chosen order.

A dispatch mode takes operators of several steps apart (`_rounding.in_steps`) and computes what adds terms up by an
`Arithmetic`. The verifier measures with it how far plain honest evaluations of the same inputs are from the truth
(`MEASURED`); `python -m benchmarks.honest` evaluates every problem with many more.

Covers: sum, mean, var, var_mean, cumsum, products of matrices, convolutions and their gradients, in float32.
Does not cover: pools, scatters and native code of the user, which stay torch's own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils._pytree import tree_map

from ...system.dispatch_mode import DispatchMode
from ._orders import (
    Moments,
    Product,
    Sum,
    one_pass,
    pairwise,
    product_by,
    reversed_serial,
    serial,
    serial_prefixes,
    shifted,
    two_pass,
    welford,
)
from ._rounding import in_steps
from ._summation_error import MATRICES

_HALF = (torch.float16, torch.bfloat16)
_MOST_PRODUCTS = 1 << 26
"""Multiplications of one operator (half a second); a larger one stays torch's own."""
_FUNCTIONS = frozenset({"exp", "tanh", "erf", "sigmoid"})
_NORMAL = 2.0**-120


@dataclass(frozen=True)
class Arithmetic:
    """How what adds terms up is computed; what is none stays torch's own."""

    add: Sum | None = None
    moments: Moments | None = None
    multiply: Product | None = None
    prefixes: Callable[[Tensor], Tensor] | None = None
    """Adds up every prefix of the first axis."""
    units: int = 0
    """By how many units in the last place exp, tanh, erf and sigmoid fall short; negative where they exceed."""
    factors: torch.dtype | None = None
    """To what the factors of products and convolutions are rounded, as tensor cores take them; where that would
    overflow they are not."""

    @classmethod
    def ordered(cls, add: Sum, **others: Any) -> "Arithmetic":
        """Use one order of summation everywhere."""
        return cls(**{"add": add, "moments": two_pass(add), "multiply": product_by(add)} | others)


MEASURED = (
    Arithmetic.ordered(serial, prefixes=serial_prefixes),
    Arithmetic.ordered(reversed_serial),
    Arithmetic.ordered(serial, moments=welford),
    Arithmetic.ordered(serial, moments=shifted),
    Arithmetic(units=2),
    Arithmetic(units=-2),
)
"""What a near miss is measured with: plain evaluations that any kernel may use. The last two have the functions
of the CUDA C++ Programming Guide's table of errors (13.1: expf, tanhf and erff within 2 units), all off one way."""


REPEATED = (
    Arithmetic.ordered(pairwise),
    Arithmetic(multiply=product_by(pairwise)),
    Arithmetic(moments=one_pass),
    Arithmetic(moments=shifted),
)
"""What is measured too where an input repeats one value: rounding errors repeat there as well, in a direction that the
order of the sum decides, and do not average out."""


def measured_in(dtypes: Iterable[torch.dtype], *, repeated: bool = False) -> tuple[Arithmetic, ...]:
    """Return what near misses of a problem of these dtypes are measured with; `repeated`: an input is one value.

    In half precision that includes factors of products that are rounded to it: what comes between two products is
    float32, and a tensor core takes it rounded.

    Example:
        >>> len(measured_in([torch.float32])), len(measured_in([torch.bfloat16, torch.float32]))
        (6, 7)
    """
    half = (Arithmetic(factors=d) for d in _HALF if d in dtypes)
    return (*MEASURED, *(REPEATED if repeated else ()), *half)


def in_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Round to a narrower dtype and back; not at all where something finite would overflow.

    Example:
        >>> in_dtype(torch.tensor([1 + 2.0**-12]), torch.float16), in_dtype(torch.tensor([1e6]), torch.float16)
        (tensor([1.]), tensor([1000000.]))
    """
    rounded = x.to(dtype).to(x.dtype)
    return rounded if torch.equal(rounded.isfinite(), x.isfinite()) else x


class Evaluation(DispatchMode):
    """Compute in float32 by an arithmetic, and what is asked for in half precision in float32 too.

    Example:
        >>> with Evaluation(MEASURED[0]):
        ...     total = torch.full((4096,), 0.1).sum()
        >>> bool((total - 409.6).abs() > 0.01)
        True
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        super().__init__()
        self.arithmetic = arithmetic
        self.used = False
        """Whether the arithmetic had anything to compute."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator by the arithmetic, or its steps, or itself."""
        args, kwargs = tree_map(_full, args), tree_map(_full, kwargs or {})
        name = func.overloadpacket.__name__
        if args and isinstance(args[0], Tensor) and args[0].dtype is torch.float32:
            result = self.replaced(name, func, args, kwargs)
            if result is not NotImplemented:
                self.used = True
                return result
        if (steps := in_steps(self, func, args, kwargs)) is not NotImplemented:
            return steps
        return func(*args, **kwargs)

    def replaced(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute an operator by the arithmetic; `NotImplemented` where that is not its affair."""
        way = self.arithmetic
        if way.units and name in _FUNCTIONS:
            y = _short(func(args[0].double()).float(), way.units)
            return y if name == "exp" else y.clamp_(-1, 1)
        if name in ("sum", "mean") and way.add is not None and args[0].numel():
            x = _terms_first(args[0], args[1] if len(args) > 1 else kwargs.get("dim"))
            total = way.add(x)
            return (total / x.shape[0] if name == "mean" else total).reshape(_shape(func, args, kwargs))
        if name in ("var", "var_mean") and way.moments is not None and args[0].numel():
            return _variance(way.moments, name, func, args, kwargs)
        if name == "cumsum" and way.prefixes is not None and args[0].dim():
            return way.prefixes(args[0].movedim(args[1], 0)).movedim(0, args[1])
        if way.factors is not None and (name in MATRICES or name == "convolution"):
            first = MATRICES.get(name, 0)
            factors = [in_dtype(a, way.factors) for a in args[first : first + 2]]
            return func(*args[:first], *factors, *args[first + 2 :], **kwargs)
        if way.multiply is None or any(not a.numel() for a in args if isinstance(a, Tensor)):
            return NotImplemented
        if (
            name in MATRICES
            and args[MATRICES[name]].numel() * args[MATRICES[name] + 1].shape[-1] <= _MOST_PRODUCTS
        ):
            return _matrices(way.multiply, name, args, kwargs)
        if name == "convolution" and args[0].numel() * args[1].numel() // args[1].shape[1] <= _MOST_PRODUCTS:
            return convolution(way.multiply, *args)
        return NotImplemented


def _short(y: Tensor, units: int) -> Tensor:
    """Move towards zero by so many units in the last place; what is saturated, subnormal or not finite stays."""
    bits = y.contiguous().view(torch.int32) - units
    return torch.where(y.isfinite() & (y.abs() > _NORMAL) & (y.abs() != 1), bits.view(torch.float32), y)


def _full(value: Any) -> Any:
    return torch.float32 if isinstance(value, torch.dtype) and value in _HALF else value


def _shape(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Size:
    found: Tensor = func(args[0].to("meta"), *args[1:], **kwargs)
    return found.shape


def _terms_first(x: Tensor, dims: Any) -> Tensor:
    """Bring the axes that are summed to the front, as one."""
    dims = [dims] if isinstance(dims, int) else dims
    dims = [d % x.dim() for d in dims or range(x.dim())]
    kept = [d for d in range(x.dim()) if d not in dims]
    return x.permute(*dims, *kept).reshape(-1, *(x.shape[d] for d in kept))


def _variance(moments: Moments, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    dims = kwargs.get("dim", args[1] if len(args) > 1 and not isinstance(args[1], bool) else None)
    correction = kwargs.get("correction", 1)
    if "unbiased" in kwargs or any(isinstance(a, bool) for a in args[1:]):
        unbiased = kwargs.get("unbiased", next((a for a in args[1:] if isinstance(a, bool)), True))
        correction = 1 if unbiased else 0
    x = _terms_first(args[0], dims)
    mean, squares = moments(x)
    shape = func(args[0].to("meta"), *args[1:], **kwargs)
    if name == "var":
        return (squares / (x.shape[0] - (1 if correction is None else correction))).reshape(shape.shape)
    variance = squares / (x.shape[0] - (1 if correction is None else correction))
    return variance.reshape(shape[0].shape), mean.reshape(shape[0].shape)


def _matrices(multiply: Product, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    first = MATRICES[name]
    left, right = args[first : first + 2]
    rows, columns = left.dim() == 1, right.dim() == 1
    left = left[None] if rows else left
    right = right[:, None] if columns else right
    batched = left.dim() == 3
    found = multiply(left if batched else left[None], right if batched else right[None])
    found = found if batched else found[0]
    found = found.squeeze(-1) if columns else found
    found = found.squeeze(0) if rows else found
    if not first:
        return found
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    scaled = found if alpha == 1 else alpha * found
    return scaled if beta == 0 else (args[0] if beta == 1 else beta * args[0]) + scaled


def convolution(
    multiply: Product, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, more: Any, groups: int,
) -> Tensor:  # fmt: skip
    """Convolve by a product: every window becomes a column. A transposed one spreads its input with zeros first."""
    rank = x.dim() - 2
    stride, padding, dilation, more = (
        list(v) * (rank if len(v) == 1 else 1) for v in (stride, padding, dilation, more)
    )
    kernel = weight.shape[2:]
    if transposed:
        x = _spread(x, stride)
        edges = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
        x = pad(x, [e for n, o in zip(reversed(edges), reversed(more), strict=True) for e in (n, n + o)])
        split = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)
        weight = split.flatten(0, 1).flip(tuple(range(2, rank + 2)))
        stride = [1] * rank
    else:
        x = pad(x, [p for v in reversed(padding) for p in (v, v)])
    windows = unfolded(x, kernel, stride, dilation)
    size = windows.shape[2 + rank :]
    columns = windows.reshape(x.shape[0], groups, -1, size.numel())
    columns = columns.permute(1, 2, 0, 3).flatten(2)
    found = multiply(weight.reshape(groups, weight.shape[0] // groups, -1), columns)
    y = found.reshape(groups, -1, x.shape[0], *size).movedim(2, 0).flatten(1, 2)
    return y if bias is None else y + bias.view(1, -1, *(1 for _ in size))


def unfolded(x: Tensor, kernel: Any, stride: Any, dilation: Any) -> Tensor:
    """Return the windows of a padded input: (batch, channels, *kernel, *positions), a view."""
    size = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    x = x.contiguous()
    steps = x.stride()[2:]
    taps = [d * s for d, s in zip(dilation, steps, strict=True)]
    places = [t * s for t, s in zip(stride, steps, strict=True)]
    return x.as_strided((*x.shape[:2], *kernel, *size), (*x.stride()[:2], *taps, *places))


def _spread(x: Tensor, stride: Any) -> Tensor:
    """Put zeros between the elements, as many as a stride skips."""
    if all(s == 1 for s in stride):
        return x
    sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    wide = x.new_zeros(*x.shape[:2], *sizes)
    wide[(slice(None), slice(None), *(slice(None, None, s) for s in stride))] = x
    return wide
