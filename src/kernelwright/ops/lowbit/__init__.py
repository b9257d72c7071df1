"""Linear layers with weights of 1 to 8 bits: integers with zero points or small floats, a scale for each group.

| name | what it computes |
|---|---|
| `pack(weight, bits=4, group=32)` | the nearest codes of a weight, as the kernel reads them |
| `unpack(packed)` | the weight that the codes stand for |
| `linear(x, packed, bias)` | `x @ weight.T + bias`; activations as they are, or as 8 bits block by block |
| `LowBitLinear.from_linear(layer)` | a module in place of `torch.nn.Linear` |
| `from_gguf`, `from_awq`, `from_gptq` | packed weights of tensors that lie in these formats |
"""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, Parts, Tuning, checked, cpu_only, floats, refuse, remembered
from . import reference
from ._formats import from_awq, from_gptq
from ._gguf import from_gguf
from ._packed import PackedWeight, of, pack, unpack

__all__ = [
    "KERNEL",
    "LowBitLinear",
    "PackedWeight",
    "from_awq",
    "from_gguf",
    "from_gptq",
    "linear",
    "of",
    "pack",
    "unpack",
]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"), flags=("-O2",))
"""The library of this family."""
ACTIVATIONS = ("float", "int8")

T = torch.Tensor


def _check(
    x: T, codes: T, scales: T, zeros: T | None, minima: T | None, bias: T | None,
    exponent: int, group: int, _zero: int, _int8: bool, outputs: int,
) -> None:  # fmt: skip
    op = "lowbit.linear"
    floats(op, "x", x)
    if x.dim() != 2:
        refuse(op, "x", f"of shape {tuple(x.shape)}", "a matrix")
    if codes.dim() != 5 or codes.dtype is not torch.uint8 or codes.shape[2] != 4 or codes.shape[4] != 64:
        refuse(
            op,
            "codes",
            f"of shape {tuple(codes.shape)}, {codes.dtype}",
            "(panels, tiles, 4, bits, 64), torch.uint8",
        )
    panels, tiles, _, bits, _ = codes.shape
    if not 1 <= bits <= 8 or not 0 <= exponent < bits:
        refuse(op, "codes", f"of {bits} bits with {exponent} of exponent", "1 to 8 bits, the exponent fewer")
    if -(-outputs // 64) != panels:
        refuse(op, "outputs", outputs, f"a number that fills {panels} panels of 64")
    if -(-x.shape[1] // 32) != tiles:
        refuse(op, "x", f"of {x.shape[1]} columns", f"a number that fills {tiles} tiles of 32")
    if group != 16 and (group < 32 or group % 32):
        refuse(op, "group", group, "16 or a multiple of 32")
    of_groups = (panels, -(-x.shape[1] // group), 64)
    if scales.shape != of_groups or scales.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        refuse(op, "scales", f"of shape {tuple(scales.shape)}, {scales.dtype}", f"{of_groups} of floats")
    if zeros is not None and (zeros.shape != of_groups or zeros.dtype is not torch.uint8):
        refuse(op, "zeros", f"of shape {tuple(zeros.shape)}, {zeros.dtype}", f"{of_groups}, torch.uint8")
    if minima is not None and (minima.shape != of_groups or minima.dtype is not scales.dtype or exponent):
        given = f"of shape {tuple(minima.shape)}, {minima.dtype}, with {exponent} bits of exponent"
        refuse(op, "minima", given, f"{of_groups}, {scales.dtype}, of integers")
    if bias is not None and (bias.shape != (outputs,) or bias.dtype is not x.dtype):
        refuse(op, "bias", f"of shape {tuple(bias.shape)}, {bias.dtype}", f"({outputs},), {x.dtype}, as x is")


def _serves(
    x: T, codes: T, scales: T, zeros: T | None, minima: T | None, bias: T | None, *numbers: Any
) -> str | None:
    if x.dtype not in (torch.float32, torch.bfloat16):
        return f"x is of {x.dtype}, and the kernel takes float32 and bfloat16"
    if not all(t is None or t.is_contiguous() for t in (codes, scales, zeros, minima, bias)):
        return "codes, scales, zeros, minima or bias are not contiguous"
    if numbers[1] < 32 and numbers[3]:
        return "groups are of 16 columns, and activations as int8 want 32 or more"
    return cpu_only(x, codes, scales, zeros, minima, bias)


def _outputs(x: T, *rest: Any) -> T:
    return x.new_empty(x.shape[0], rest[-1])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: T) -> None:  # noqa: ARG001
    x, codes, scales, zeros, minima, _, *numbers = inputs
    ctx.save_for_backward(codes, scales, zeros, minima)
    ctx.numbers, ctx.inner = numbers, x.shape[1]


def _backward(ctx: Any, gradient: T) -> tuple[T | None, ...]:
    codes, scales, zeros, minima = ctx.saved_tensors
    exponent, group, zero, _, outputs = ctx.numbers
    to_x = None
    if ctx.needs_input_grad[0]:
        wide = torch.promote_types(gradient.dtype, torch.float32)
        weight = reference.unpack(
            codes, scales, zeros, minima, exponent, group, zero, outputs, ctx.inner, wide
        )
        to_x = (gradient.to(wide) @ weight).to(gradient.dtype)
    to_bias = gradient.sum(0) if ctx.needs_input_grad[5] else None
    return (to_x, None, None, None, None, to_bias, None, None, None, None, None)


def _sizes(x: T, codes: T, *rest: Any) -> tuple[int, ...]:
    bits = 1 << 2 * codes.shape[3]  # so that no other number of bits is near
    return (len(x), rest[-1], x.shape[1], bits, 4 if rest[-2] else 1)


def _planes(x: T, *arguments: Any) -> int:
    """Return the bytes that an activation is multiplied as; 4 for one, where codes are not of 4 or 8 bits."""
    if arguments[8]:
        return 1 if arguments[0].shape[3] % 4 == 0 else 4
    return 2 if x.dtype is torch.bfloat16 else 3


_linear = Op(
    "lowbit_linear(Tensor x, Tensor codes, Tensor scales, Tensor? zeros, Tensor? minima, Tensor? bias, int exponent, "
    "int group, int zero, bool int8, int outputs) -> Tensor",
    reference=reference.linear, kernel=KERNEL, outputs=_outputs, check=_check, serves=_serves,
    gradient=(_keep, _backward), tuning=Tuning("lowbit", _sizes), parts=Parts("KW_PLANES", (1, 2, 3, 4), _planes),
)  # fmt: skip


@remembered
@checked
def linear(x: T, packed: PackedWeight, bias: T | None = None, *, activations: str = "float") -> T:
    """Multiply by a packed weight; the weight is never stored as floats.

    Args:
        x: (..., inner) float32 or bfloat16; other floats run the reference.
        packed: The weight (outputs, inner).
        bias: (outputs,), of x's dtype.
        activations: `float` keeps what x's dtype holds: with integers or fp4, blocks of at most 256 columns are
            multiplied exactly, as integers of 24 bits (float32) or 16 (bfloat16) of the block's largest. `int8`
            rounds them to 8 bits instead, which is up to three times as fast and not as precise.

    Returns:
        (..., outputs), of x's dtype. It has a gradient by x and bias; that of `int8` is the one of `float`.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> packed = pack(torch.tensor([[1.0, -7.0], [3.0, 7.0]]))
        >>> linear(torch.tensor([1.0, 0.5]), packed).tolist()
        [-2.5, 6.5]
    """
    if activations not in ACTIVATIONS:
        refuse("lowbit.linear", "activations", repr(activations), "'float' or 'int8'")
    floats("lowbit.linear", "x", x)
    if x.dim() == 0 or x.shape[-1] != packed.inner:
        refuse(
            "lowbit.linear",
            "x",
            f"of shape {tuple(x.shape)}",
            f"(..., {packed.inner}), as the weight has columns",
        )
    if packed.order is not None:
        x = x.index_select(-1, packed.order)
    out: T = _linear(
        x.reshape(-1, packed.inner), packed.codes, packed.scales, packed.zeros, packed.minima, bias,
        packed.exponent, packed.group, packed.zero, activations == "int8", packed.outputs,
    )  # fmt: skip
    return out if x.dim() == 2 else out.view(*x.shape[:-1], packed.outputs)


class LowBitLinear(torch.nn.Module):
    """A linear layer on a packed weight.

    Example:
        >>> layer = torch.nn.Linear(64, 10)
        >>> small = LowBitLinear.from_linear(layer, bits=8)
        >>> x = torch.randn(3, 64)
        >>> bool((small(x) - layer(x)).detach().abs().max() < 0.05)
        True
    """

    codes: T
    scales: T
    zeros: T | None
    minima: T | None
    order: T | None
    bias: T | None

    @checked
    def __init__(self, packed: PackedWeight, bias: T | None = None, *, activations: str = "float") -> None:
        super().__init__()
        self.in_features, self.out_features, self.activations = packed.inner, packed.outputs, activations
        self._numbers = (packed.group, packed.exponent, packed.zero)
        for name in ("codes", "scales", "zeros", "minima", "order"):
            self.register_buffer(name, getattr(packed, name))
        self.register_buffer("bias", bias)

    @classmethod
    def from_linear(
        cls, layer: torch.nn.Linear, *, bits: int | None = None, group: int = 32, kind: str = "int",
        symmetric: bool = True, activations: str = "float",
    ) -> "LowBitLinear":  # fmt: skip
        """Quantise a layer's weight; its bias stays as it is.

        Raises:
            ArgumentError: as `pack` raises.
        """
        weight = layer.weight.detach()
        bias = None if layer.bias is None else layer.bias.detach().clone()
        return cls(pack(weight, bits, group, kind, symmetric), bias, activations=activations)

    @property
    def packed(self) -> PackedWeight:
        """The weight."""
        group, exponent, zero = self._numbers
        return PackedWeight(
            self.codes, self.scales, self.zeros, self.out_features, self.in_features,
            group, exponent, zero, self.order, self.minima,
        )  # fmt: skip

    def forward(self, x: T) -> T:
        """Return `x @ weight.T + bias`, (..., out_features)."""
        return linear(x, self.packed, self.bias, activations=self.activations)

    def extra_repr(self) -> str:
        """Say the sizes and the bits."""
        return (
            f"{self.in_features}, {self.out_features}, bits={self.codes.shape[3]}, group={self._numbers[0]}"
        )
