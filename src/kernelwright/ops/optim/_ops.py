"""Ops of one parameter, which return what was moved: what the judge holds to the references."""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, checked, cpu_only, floats, refuse, remembered
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
SERVED = (torch.float32, torch.bfloat16)
"""Dtypes of parameters that kernels take; their state is float32."""
_Tensor = torch.Tensor
_Maybe = torch.Tensor | None


def state_dtype(param: _Tensor) -> torch.dtype:
    """Return the dtype of a parameter's state: float32, or wider where the parameter is.

    Example:
        >>> state_dtype(torch.ones(2, dtype=torch.bfloat16))
        torch.float32
    """
    return torch.promote_types(param.dtype, torch.float32)


def check_gradient(op: str, param: _Tensor, grad: _Tensor) -> None:
    """Refuse a gradient that is none of the parameter's."""
    floats(op, "param", param)
    floats(op, "grad", grad)
    if grad.layout is not torch.strided:
        refuse(op, "grad", f"of layout {grad.layout}", "a dense one")
    if grad.shape != param.shape:
        refuse(op, "grad", f"of shape {tuple(grad.shape)}", f"{tuple(param.shape)}, as its parameter")
    _check_device(op, "grad", grad, param)


def check_state(op: str, name: str, state: _Tensor, param: _Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a state of another shape or dtype."""
    floats(op, name, state)
    if tuple(state.shape) != shape:
        refuse(op, name, f"of shape {tuple(state.shape)}", f"{shape}, for its parameter")
    if state.dtype is not state_dtype(param):
        refuse(op, name, f"of {state.dtype}", f"{state_dtype(param)}, for a parameter of {param.dtype}")
    _check_device(op, name, state, param)


def _check_device(op: str, name: str, x: _Tensor, param: _Tensor) -> None:
    if x.device != param.device:
        refuse(op, name, f"on {x.device}", f"{param.device}, as its parameter")


def check_number(op: str, name: str, value: float, least: float, below: float = float("inf")) -> None:
    """Refuse a number out of its range."""
    if not least <= value < below:
        until = "" if below == float("inf") else f" and below {below:g}"
        refuse(op, name, value, f"{least:g} or more{until}")


def check_rates(op: str, lr: float, beta1: float, beta2: float, weight_decay: float) -> None:
    """Refuse rates out of their range."""
    check_number(op, "lr", lr, 0)
    check_number(op, "beta1", beta1, 0, 1)
    check_number(op, "beta2", beta2, 0, 1)
    check_number(op, "weight_decay", weight_decay, 0)


def check_step(op: str, name: str, step: object) -> None:
    """Refuse what is no number of a step."""
    if not isinstance(step, int | float) or not step >= 1:
        refuse(op, name, repr(step), "1 or more: the number of this step")


def _check_adamw(
    param: _Tensor, grad: _Tensor, mean: _Tensor, square: _Tensor, largest: _Maybe, step: float, lr: float,
    beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool,  # noqa: ARG001
) -> None:  # fmt: skip
    op = "optim.adamw"
    check_gradient(op, param, grad)
    for name, state in (("mean", mean), ("square", square), ("largest", largest)):
        if state is not None:
            check_state(op, name, state, param, tuple(param.shape))
    check_step(op, "step", step)
    check_rates(op, lr, beta1, beta2, weight_decay)
    check_number(op, "eps", eps, 0)


def _check_lion(
    param: _Tensor, grad: _Tensor, mean: _Tensor, lr: float, beta1: float, beta2: float, weight_decay: float,
    maximize: bool,  # noqa: ARG001
) -> None:  # fmt: skip
    check_gradient("optim.lion", param, grad)
    check_state("optim.lion", "mean", mean, param, tuple(param.shape))
    check_rates("optim.lion", lr, beta1, beta2, weight_decay)


def check_adafactor(
    op: str, lr: float, beta2_decay: float, eps: dict[str, float | None], d: float, weight_decay: float
) -> None:
    """Refuse numbers of Adafactor out of their range."""
    if not beta2_decay <= 0:
        refuse(op, "beta2_decay", beta2_decay, "0 or less")
    for name, value, least in (
        ("lr", lr, 0),
        ("weight_decay", weight_decay, 0),
        ("d", d, 1e-30),
    ):
        check_number(op, name, value, least)
    for name, one in eps.items():
        if one is not None:
            check_number(op, name, one, 0, 1e15)  # its square is a float32


def _check_matrix(
    param: _Tensor, grad: _Tensor, row: _Tensor, column: _Tensor, step: float, lr: float,
    beta2_decay: float, eps1: float, eps2: float, d: float, weight_decay: float, maximize: bool,  # noqa: ARG001
) -> None:  # fmt: skip
    op = "optim.adafactor"
    check_gradient(op, param, grad)
    check_factors(op, param, row, column)
    check_step(op, "step", step)
    check_adafactor(op, lr, beta2_decay, {"eps1": eps1, "eps2": eps2}, d, weight_decay)


def check_factors(op: str, param: _Tensor, row: _Tensor, column: _Tensor) -> None:
    """Refuse means of squares, by row and by column, that are none of the parameter's."""
    if param.dim() < 2:
        refuse(
            op,
            "param",
            f"of shape {tuple(param.shape)}",
            "two axes or more, or `variance` instead of rows",
        )
    check_state(op, "row", row, param, (*param.shape[:-1], 1))
    check_state(op, "column", column, param, (*param.shape[:-2], 1, param.shape[-1]))


def serves(param: _Tensor, grad: _Tensor, *states: Any) -> str | None:
    """Return why the kernel does not serve a parameter; None where it does."""
    if param.dtype not in SERVED or grad.dtype is not param.dtype:
        return f"a parameter is of {param.dtype}, its gradient of {grad.dtype}; the kernel takes float32 and bfloat16"
    for x in (param, grad, *states):
        if isinstance(x, torch.Tensor):
            if not x.is_contiguous():
                return "a tensor is not contiguous"
            if not x.is_cpu:
                return cpu_only(x)
    return None


def _serves_matrix(param: _Tensor, grad: _Tensor, *states: Any) -> str | None:
    if param.dim() != 2 or not param.numel():
        return f"a parameter is of shape {tuple(param.shape)}, and the kernel takes matrices"
    return serves(param, grad, *states)


def _like(x: _Tensor) -> _Tensor:
    return torch.empty_like(x)


_adamw = Op(
    "optim_adamw(Tensor param, Tensor grad, Tensor mean, Tensor square, Tensor? largest, float step, float lr,"
    " float beta1, float beta2, float eps, float weight_decay, bool maximize) -> (Tensor, Tensor, Tensor, Tensor)",
    reference=reference.adamw, kernel=KERNEL, check=_check_adamw, serves=serves,
    outputs=lambda p, g, m, v, top, *_: (  # noqa: ARG005
        _like(p), _like(m), _like(v), m.new_empty(0) if top is None else _like(top)
    ),
)  # fmt: skip
_lion = Op(
    "optim_lion(Tensor param, Tensor grad, Tensor mean, float lr, float beta1, float beta2, float weight_decay,"
    " bool maximize) -> (Tensor, Tensor)",
    reference=reference.lion, kernel=KERNEL, check=_check_lion, serves=serves,
    outputs=lambda p, g, m, *_: (_like(p), _like(m)),  # noqa: ARG005
)  # fmt: skip
_adafactor = Op(
    "optim_adafactor(Tensor param, Tensor grad, Tensor row, Tensor column, float step, float lr, float beta2_decay,"
    " float eps1, float eps2, float d, float weight_decay, bool maximize) -> (Tensor, Tensor, Tensor)",
    reference=reference.adafactor, kernel=KERNEL, check=_check_matrix, serves=_serves_matrix,
    outputs=lambda p, g, row, column, *_: (_like(p), _like(row), _like(column)),  # noqa: ARG005
)  # fmt: skip


@remembered
@checked
def adamw(
    param: _Tensor, grad: _Tensor, mean: _Tensor, square: _Tensor, largest: _Maybe, step: float, lr: float,
    beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool,
) -> tuple[_Tensor, _Tensor, _Tensor, _Tensor]:  # fmt: skip
    """Return a parameter and its moments after a step of AdamW; arguments and errors are those of `adamw_`.

    Example:
        >>> one, zero = torch.ones(1), torch.zeros(1)
        >>> adamw(one, one, zero, zero, None, 1, 0.5, 0.9, 0.999, 1e-8, 0.0, False)[0]
        tensor([0.5000])
    """
    moved: tuple[_Tensor, _Tensor, _Tensor, _Tensor] = _adamw(
        param, grad, mean, square, largest, *map(float, (step, lr, beta1, beta2, eps, weight_decay)), maximize
    )
    return moved


@remembered
@checked
def lion(
    param: _Tensor, grad: _Tensor, mean: _Tensor, lr: float, beta1: float, beta2: float, weight_decay: float,
    maximize: bool,
) -> tuple[_Tensor, _Tensor]:  # fmt: skip
    """Return a parameter and its moment after a step of Lion; arguments and errors are those of `lion_`.

    Example:
        >>> one, zero = torch.ones(1), torch.zeros(1)
        >>> lion(one, one, zero, 0.25, 0.9, 0.99, 0.0, False)[0]
        tensor([0.7500])
    """
    moved: tuple[_Tensor, _Tensor] = _lion(
        param, grad, mean, *map(float, (lr, beta1, beta2, weight_decay)), maximize
    )
    return moved


@remembered
@checked
def adafactor(
    param: _Tensor, grad: _Tensor, row: _Tensor, column: _Tensor, step: float, lr: float, beta2_decay: float,
    eps1: float, eps2: float, d: float, weight_decay: float, maximize: bool,
) -> tuple[_Tensor, _Tensor, _Tensor]:  # fmt: skip
    """Return a parameter and its means of squares after a step of Adafactor; as `adafactor_`, of matrices.

    Example:
        >>> one, row, column = torch.ones(1, 2), torch.zeros(1, 1), torch.zeros(1, 2)
        >>> adafactor(one, one, row, column, 1, 0.5, -0.8, 1e-7, 1e-3, 1.0, 0.0, False)[0]
        tensor([[0.5000, 0.5000]])
    """
    moved: tuple[_Tensor, _Tensor, _Tensor] = _adafactor(
        param, grad, row, column, *map(float, (step, lr, beta2_decay, eps1, eps2, d, weight_decay)), maximize
    )
    return moved
