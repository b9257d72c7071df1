"""Checks of arguments: one sentence that names the argument, what was given and what was expected."""

from typing import NoReturn

import torch

from ...errors import ArgumentError

FLOATS = frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16})
"""Dtypes of numbers that references take."""


def refuse(op: str, argument: str, given: object, expected: str, cause: Exception | None = None) -> NoReturn:
    """Raise the error of one wrong argument.

    Example:
        >>> try:
        ...     refuse("kmeans.assign", "centroids", "of 3 columns", "2, as x has")
        ... except ValueError as error:
        ...     print(error)
        kmeans.assign: centroids is of 3 columns; expected 2, as x has
    """
    raise ArgumentError(f"{op}: {argument} is {given}; expected {expected}") from cause


def told(x: object) -> str:
    """Say what was given: shape and dtype of a tensor, the type of anything else.

    Example:
        >>> told(torch.ones(2, 3)), told(5)
        ('of shape (2, 3), torch.float32', 'a int')
    """
    return f"of shape {tuple(x.shape)}, {x.dtype}" if isinstance(x, torch.Tensor) else f"a {type(x).__name__}"


def floats(op: str, argument: str, x: torch.Tensor) -> None:
    """Refuse what is no tensor of floats.

    Example:
        >>> floats("f", "x", torch.ones(2))
    """
    if not isinstance(x, torch.Tensor):
        refuse(op, argument, f"a {type(x).__name__}", "a tensor")
    if x.dtype not in FLOATS:
        refuse(op, argument, f"of {x.dtype}", "float32, float64, bfloat16 or float16")
    if x.layout is not torch.strided:
        refuse(op, argument, f"of layout {x.layout}", "torch.strided")


def matrix(op: str, argument: str, x: torch.Tensor) -> None:
    """Refuse what is no matrix of floats.

    Example:
        >>> matrix("f", "x", torch.ones(2, 3))
    """
    floats(op, argument, x)
    if x.dim() != 2:
        refuse(op, argument, f"of shape {tuple(x.shape)}", "a matrix")


def finite(op: str, argument: str, x: float) -> None:
    """Refuse a number that float32 cannot hold.

    Example:
        >>> finite("f", "scale", 0.5)
    """
    if not abs(x) <= torch.finfo(torch.float32).max:
        refuse(op, argument, x, "a finite number of float32")


def cap_of(op: str, argument: str, cap: float | None) -> float:
    """Return what kernels are given for a cap of scores or logits: 0 for none.

    Example:
        >>> cap_of("f", "softcap", None), cap_of("f", "softcap", 30)
        (0.0, 30.0)
    """
    if cap is None:
        return 0.0
    of = torch.finfo(torch.float32)
    if not isinstance(cap, float | int) or not of.tiny <= cap <= of.max:
        refuse(
            op, argument, repr(cap), f"a number above 0, or None; float32 holds {of.tiny:.3g} to {of.max:.3g}"
        )
    return float(cap)


def cpu_only(*tensors: torch.Tensor | None) -> str | None:
    """Return why a CPU kernel does not serve these tensors; None where it does.

    Example:
        >>> cpu_only(torch.ones(2), None)
        >>> cpu_only(torch.ones(2, device="meta"))
        'a tensor is on meta, and the kernel runs on the CPU'
    """
    for tensor in tensors:
        if tensor is not None and not tensor.is_cpu:
            return f"a tensor is on {tensor.device}, and the kernel runs on the CPU"
    return None
