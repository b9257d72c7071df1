"""The op of logits: what is checked, what the kernel serves, and its gradient."""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, Tuning, cpu_only, matrix, refuse
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"), flags=("-O2",))
"""The library of this family."""
MOST = 1024
"""Most tokens that a row keeps."""
_SERVED = frozenset({torch.float32, torch.bfloat16, torch.float16})
T = torch.Tensor


def check(x: T, weight: T, bias: T | None, count: int = 1, softcap: float = 0.0, _sums: bool = True) -> None:
    """Refuse what no logits can be made of."""
    matrix("logits", "x", x)
    matrix("logits", "weight", weight)
    if weight.dtype is not x.dtype:
        refuse("logits", "weight", f"of {weight.dtype}", f"{x.dtype}, as x is")
    vocabulary, inner = weight.shape
    if inner != x.shape[1] or not vocabulary:
        wanted = f"(vocabulary, {x.shape[1]}), as x has columns"
        refuse("logits", "weight", f"of shape {tuple(weight.shape)}", wanted)
    if bias is not None:
        if not isinstance(bias, T):
            refuse("logits", "bias", f"a {type(bias).__name__}", f"({vocabulary},), of floats")
        if bias.shape != (vocabulary,) or not bias.dtype.is_floating_point:
            given = f"of shape {tuple(bias.shape)}, {bias.dtype}"
            refuse("logits", "bias", given, f"({vocabulary},), of floats")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= min(vocabulary, MOST):
        given = f"a {type(count).__name__}" if isinstance(count, T) else repr(count)
        refuse("logits", "count", given, f"1 to {min(vocabulary, MOST)}")
    number(softcap, "softcap", 0.0)


def number(x: object, name: str, least: float, most: float = 1e300) -> None:
    """Refuse what is no number from `least` to `most`."""
    if isinstance(x, bool) or not isinstance(x, float | int) or not least <= x <= most:
        given = f"a {type(x).__name__}" if isinstance(x, T) else repr(x)
        above = "" if most == 1e300 else f" to {most:g}"
        refuse("logits", name, given, f"a finite number from {least:g}{above}")


def _serves(x: T, weight: T, bias: T | None, *_: object) -> str | None:
    if x.dtype not in _SERVED:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if bias is not None and (bias.dtype is not torch.float32 or not bias.is_contiguous()):
        return "bias is not contiguous float32"
    if weight.shape[0] >= 1 << 31:
        return f"weight has {weight.shape[0]} rows, and the kernel takes fewer than {1 << 31}"
    return cpu_only(x, weight, bias)


def _outputs(x: T, _weight: T, _bias: T | None, count: int, _softcap: float, sums: bool) -> tuple[T, T, T]:
    rows = x.shape[0]
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    return (
        x.new_empty(rows, count, dtype=wide), x.new_empty(rows, count, dtype=torch.int64),
        x.new_empty(rows if sums else 0, dtype=wide),
    )  # fmt: skip


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[T, T, T]) -> None:
    x, weight, bias, _, ctx.softcap, _ = inputs
    ctx.save_for_backward(x, weight, bias, *output)
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, of_values: T | None, _: T | None, of_sums: T | None) -> tuple[T | None, ...]:
    """Return the gradients: of the logits that were kept by their tokens, of their sums by all of them, made again."""
    x, weight, bias, values, tokens, sums = ctx.saved_tensors
    found = reference.Gradients(x, weight, bias, ctx.softcap)
    if of_values is not None:
        found.add_kept(of_values, values, tokens)
    if of_sums is not None:
        found.add_sums(of_sums, sums)
    return *found.wanted(ctx.needs_input_grad), None, None, None


top = Op(
    "logits_top(Tensor x, Tensor weight, Tensor? bias, int count, float softcap, bool sums) "
    "-> (Tensor, Tensor, Tensor)",
    reference=reference.top, kernel=KERNEL, outputs=_outputs, check=check, serves=_serves,
    gradient=(_keep, _gradient),
    tuning=Tuning("stream_reduce", lambda x, weight, *_: (len(x), len(weight), x.shape[1])),
)  # fmt: skip
