"""The ops of losses: what is checked, and what the kernel serves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, Tuning, cap_of, cpu_only, matrix, refuse
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"), flags=("-O2",))
"""The library of this family."""
_SERVED = frozenset({torch.float32, torch.bfloat16, torch.float16})
_NAME = "loss.linear_cross_entropy"
_MOST = 1 << 31


def _check(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    *settings: Any,
) -> None:
    matrix(_NAME, "x", x)
    matrix(_NAME, "weight", weight)
    rows, inner = x.shape
    if weight.dtype is not x.dtype:
        refuse(_NAME, "weight", f"of {weight.dtype}", f"{x.dtype}, as x is")
    if weight.shape[1] != inner or not weight.shape[0]:
        refuse(
            _NAME,
            "weight",
            f"of shape {tuple(weight.shape)}",
            f"(vocabulary, {inner}), as x has {inner} columns",
        )
    if target.dtype is not torch.int64 or target.shape != (rows,):
        refuse(_NAME, "target", f"of shape {tuple(target.shape)}, {target.dtype}", f"({rows},), torch.int64")
    if bias is not None and (bias.shape != weight.shape[:1] or not bias.dtype.is_floating_point):
        refuse(
            _NAME, "bias", f"of shape {tuple(bias.shape)}, {bias.dtype}", f"({weight.shape[0]},), of floats"
        )
    if settings:
        _check_settings(*settings)


def _check_settings(
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    softcap: float,
    scale: torch.Tensor | None = None,  # noqa: ARG001
) -> None:
    if not isinstance(ignore_index, int):
        refuse(_NAME, "ignore_index", repr(ignore_index), "a whole number")
    if not 0 <= label_smoothing <= 1:
        refuse(_NAME, "label_smoothing", repr(label_smoothing), "a number from 0 to 1")
    if not z_loss >= 0:
        refuse(_NAME, "z_loss", repr(z_loss), "a number from 0")
    cap_of(_NAME, "softcap", softcap or None)


def _serves(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    *settings: Any,
) -> str | None:
    if x.dtype not in _SERVED:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if not target.is_contiguous() or (bias is not None and not bias.is_contiguous()):
        return "target or bias are not contiguous"
    if bias is not None and bias.dtype is not torch.float32:
        return f"bias is of {bias.dtype}, and the kernel takes float32"
    if weight.shape[0] >= _MOST:
        return f"weight has {weight.shape[0]} rows, and the kernel takes fewer than {_MOST}"
    scale = settings[4] if len(settings) > 4 else None
    if scale is not None and not (scale.dtype is torch.float32 and scale.is_contiguous()):
        return "scale is not contiguous float32"
    return cpu_only(x, weight, target, bias)


def _after_looking(reference: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reference that looks at targets before it runs: the kernel looks at them itself."""

    def run(
        x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, bias: torch.Tensor | None, *settings: Any
    ) -> Any:
        wrong = target[(target != settings[0]) & ((target < 0) | (target >= len(weight)))]
        if len(wrong):
            expected = f"0 to {len(weight) - 1}, a row of weight, or ignore_index"
            raise IndexError(f"{_NAME}: target is {int(wrong[0])} somewhere; expected {expected}")
        return reference(x, weight, target, bias, *settings)

    return run


def _wide(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype is torch.float64 else torch.float32


def _losses(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return x.new_empty(x.shape[0], dtype=_wide(x))


def _all(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,  # noqa: ARG001
    bias: torch.Tensor | None = None,
    *_: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    wide = _wide(x)
    return (
        x.new_empty(x.shape[0], dtype=wide), x.new_empty(x.shape), x.new_empty(weight.shape),
        x.new_empty(0 if bias is None else bias.shape[0], dtype=wide),
    )  # fmt: skip


_SETTINGS = "int ignore_index, float label_smoothing, float z_loss, float softcap"
losses = Op(
    f"linear_cross_entropy(Tensor x, Tensor weight, Tensor target, Tensor? bias, {_SETTINGS}) -> Tensor",
    reference=_after_looking(reference.linear_cross_entropy), kernel=KERNEL, outputs=_losses, check=_check,
    serves=_serves, tuning=Tuning("stream_reduce", lambda x, weight, *_: (len(x), len(weight), x.shape[1])),
)  # fmt: skip
gradients = Op(
    f"linear_cross_entropy_gradients(Tensor x, Tensor weight, Tensor target, Tensor? bias, {_SETTINGS}, "
    "Tensor scale) -> (Tensor, Tensor, Tensor, Tensor)",
    reference=_after_looking(reference.gradients), kernel=KERNEL, outputs=_all, check=_check, serves=_serves,
    tuning=Tuning("stream_reduce", lambda x, weight, *_: (len(x), len(weight), x.shape[1])),
)  # fmt: skip
