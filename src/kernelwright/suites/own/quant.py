"""`quant`: low-bit arithmetic, each problem with a numerics contract.

exact: integers, bit for bit. scaled: real numbers from codes and a scale for each group, with at most twice the native
error. stochastic: the statistics of random rounding. saturated: what leaves the range ends at its limit, bit for bit.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._row import Row, Size
from ._written import Written

STRICT = {"error_factor": 2.0, "error_floor": 4.0, "error_cap": 1e-3}
"""Fields of the contract for results of a scale for each group: those of the numerics `strict`."""


class Quant(Written):
    """The suite of low-bit kernels."""

    name = "quant"
    layout = ("quant.json",)
    title = (
        "Exact integers, scales by group, stochastic rounding and saturation, each with a numerics contract"
    )

    def rows(self) -> tuple[Row, ...]:
        """Return the problems of every contract."""
        return (*_exact(), *_scaled(), *_stochastic(), *_saturated())


def _integer_product(x: Tensor, w: Tensor) -> Tensor:
    """Product of integer matrices, summed in 32 bits."""
    return x.to(torch.int32) @ w.to(torch.int32)


def _integer_product_with_zero_points(x: Tensor, w: Tensor, zero_x: int = 3, zero_w: int = -2) -> Tensor:
    """Product of integer matrices less their zero points, summed in 32 bits."""
    return (x.to(torch.int32) - zero_x) @ (w.to(torch.int32) - zero_w)


def _pack(x: Tensor, bits: int = 4) -> Tensor:
    """Pack unsigned codes into bytes, the first in the lowest bits."""
    each = 8 // bits
    parts = x.view(*x.shape[:-1], -1, each).to(torch.int32) << (torch.arange(each, dtype=torch.int32) * bits)
    return parts.sum(-1).to(torch.uint8)


def _unpack(x: Tensor, bits: int = 4) -> Tensor:
    """Unpack bytes into signed codes, the first from the lowest bits."""
    each = 8 // bits
    codes = (x[..., None].to(torch.int32) >> (torch.arange(each, dtype=torch.int32) * bits)) & (2**bits - 1)
    half = 2 ** (bits - 1)
    signed: Tensor = ((codes + half) & (2**bits - 1)) - half
    return signed.flatten(-2).to(torch.int8)


def _binary_product(x: Tensor, w: Tensor) -> Tensor:
    """Product of matrices of signs that are kept as bits: equal bits less different ones."""
    different = (x[:, None, :] ^ w[None, :, :]).to(torch.int32)
    ones = ((different[..., None] >> torch.arange(8, dtype=torch.int32)) & 1).sum((-1, -2))
    return (8 * x.shape[-1] - 2 * ones).to(torch.int32)


def _shifted(x: Tensor, multiplier: int = 19661, shift: int = 15) -> Tensor:
    """Scale by a fixed-point multiplier, rounding half up."""
    return ((x.to(torch.int64) * multiplier + (1 << (shift - 1))) >> shift).to(torch.int32)


def _looked_up(code: Tensor, table: Tensor) -> Tensor:
    """Add what a table has for each code along a row, in 32 bits."""
    return table[code.to(torch.int64)].sum(-1).to(torch.int32)


def _dequantised(code: Tensor, scale: Tensor) -> Tensor:
    """Real weights of codes, one scale for each group of a row."""
    return (code.view(code.shape[0], scale.shape[1], -1).float() * scale[..., None]).flatten(1)


def _dequantised_with_zero(code: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Real weights of unsigned codes, one scale and one zero point for each group of a row."""
    grouped = code.view(code.shape[0], scale.shape[1], -1).float()
    return ((grouped - zero[..., None].float()) * scale[..., None]).flatten(1)


def _weight_only_product(x: Tensor, code: Tensor, scale: Tensor) -> Tensor:
    """Real activations by weights of codes, one scale for each group of a row."""
    return x @ (code.view(code.shape[0], scale.shape[1], -1).float() * scale[..., None]).flatten(1).mT


def _packed_product(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """Real activations by four-bit weights, two in a byte, one scale for each group of a row."""
    low, high = (packed & 15).float() - 8, (packed >> 4).float() - 8
    codes = torch.stack((low, high), -1).flatten(-2)
    return x @ (codes.view(codes.shape[0], scale.shape[1], -1) * scale[..., None]).flatten(1).mT


def _integer_product_scaled(x: Tensor, w: Tensor, scale_x: Tensor, scale_w: Tensor) -> Tensor:
    """Product of eight-bit matrices, scaled by row and by column."""
    return (x.to(torch.int32) @ w.to(torch.int32)).float() * scale_x[:, None] * scale_w


def _quantised_by_group(x: Tensor, limit: float = 127.0) -> tuple[Tensor, Tensor]:
    """Error of rounding to codes under the largest value of each group, and the groups' scales."""
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / limit
    return (x / scale).clamp(-limit, limit), scale[..., 0]


def _through_float8(x: Tensor, scale: Tensor) -> Tensor:
    """Real values of codes in eight-bit floats (E4M3), one scale for each row."""
    return x.view(torch.float8_e4m3fn).float() * scale[:, None]


def _block_scaled(code: Tensor, exponent: Tensor) -> Tensor:
    """Real values of a block format: eight-bit codes share a power of two."""
    return (code.float() * torch.exp2(exponent.float())[..., None]).flatten(-2)


def _quantised_cache(q: Tensor, key: Tensor, scale: Tensor) -> Tensor:
    """Attention weights against keys that are kept in eight bits, one scale for each key."""
    return torch.softmax(q @ (key.float() * scale[:, None]).mT / q.shape[-1] ** 0.5, -1)


def _codebook(code: Tensor, book: Tensor, scale: Tensor) -> Tensor:
    """Real weights from a book of values, one scale for each row."""
    return book[code.to(torch.int64)] * scale[:, None]


def _rounded_at_random(x: Tensor, step: float = 0.5) -> Tensor:
    """Round to a multiple of the step, up with the probability of what is left: right on average."""
    return torch.floor(x / step + torch.rand_like(x)) * step


def _rounded_at_random_with_scale(x: Tensor, scale: Tensor) -> Tensor:
    """Round to codes at random, one scale for each row, and back."""
    return torch.floor(x / scale[:, None] + torch.rand_like(x)).clamp(-8, 7) * scale[:, None]


def _dithered(x: Tensor, step: float = 0.25) -> Tensor:
    """Add noise as wide as a step, round to nearest, take the noise away."""
    noise = torch.rand_like(x) - 0.5
    return torch.round(x / step + noise) * step - noise * step


def _one_bit_at_random(x: Tensor) -> Tensor:
    """A sign for each value that is right on average between minus one and one."""
    return torch.where(torch.rand_like(x) < (x.clamp(-1, 1) + 1) / 2, 1.0, -1.0)


def _rounded_update(w: Tensor, g: Tensor, step: float = 0.125) -> Tensor:
    """A step of gradient descent on coarse weights that moves some of them at random."""
    return torch.floor((w - 0.3 * g) / step + torch.rand_like(w)) * step


def _added(x: Tensor, y: Tensor, low: int = -128, high: int = 127) -> Tensor:
    """Add with saturation."""
    return (x.to(torch.int32) + y.to(torch.int32)).clamp(low, high).to(x.dtype)


def _subtracted(x: Tensor, y: Tensor, low: int = -128, high: int = 127) -> Tensor:
    """Subtract with saturation."""
    return (x.to(torch.int32) - y.to(torch.int32)).clamp(low, high).to(x.dtype)


def _multiplied(x: Tensor, y: Tensor, shift: int = 7, low: int = -128, high: int = 127) -> Tensor:
    """Multiply fixed-point numbers with saturation, rounding half up."""
    return (
        ((x.to(torch.int32) * y.to(torch.int32) + (1 << (shift - 1))) >> shift).clamp(low, high).to(x.dtype)
    )


def _requantised(x: Tensor, scale: float = 0.0078125, zero: int = 4) -> Tensor:
    """Sums in 32 bits to codes in eight: scaled by a power of two, rounded half to even, with saturation."""
    return (torch.round(x * scale) + zero).clamp(-128, 127).to(torch.int8)


def _quantised_exactly(x: Tensor, scale: float = 0.25) -> Tensor:
    """Real values to codes in eight bits: a power of two as scale, rounded half to even, with saturation."""
    return torch.round(x / scale).nan_to_num(0.0).clamp(-128, 127).to(torch.int8)


def _relu_product(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """Product of eight-bit matrices with a bias, cut at zero, to unsigned codes with saturation."""
    return ((x.to(torch.int32) @ w.to(torch.int32) + bias) >> 6).clamp(0, 255).to(torch.uint8)


def _narrowed(x: Tensor, limit: float = 448.0) -> Tensor:
    """Real values to eight-bit floats (E4M3) with saturation, as bytes."""
    return x.clamp(-limit, limit).to(torch.float8_e4m3fn).view(torch.uint8)


_SIZES: dict[str, Size] = {"rows": (24, 72), "columns": (24, 72), "inner": (24, 80)}
_GROUPED: dict[str, Size] = {"rows": (24, 64), "groups": (3, 6), "size": 16}
_I8 = "integers(-128, 128)"


def _row(kind: str, name: str, code: Callable[..., Any], arguments: dict[str, str], sizes: dict[str, Size],
         **options: Any) -> Row:  # fmt: skip
    declared = " ".join(arguments.values())
    used = {k: v for k, v in sizes.items() if k in declared or not isinstance(v, tuple)}
    description = f"{(code.__doc__ or '').strip()} Contract: {kind}."
    return Row(name, kind, code, arguments, used, description, **options)


def _exact() -> tuple[Row, ...]:
    product = {"x": f"int8[rows, inner] {_I8}", "w": f"int8[inner, columns] {_I8}"}
    unsigned = {"x": "uint8[rows, inner] integers(0, 256)", "w": product["w"]}
    few = {"x": "int8[rows, inner] integers(-8, 8)", "w": "int8[inner, columns] integers(-8, 8)"}
    bits: dict[str, Size] = {"rows": (24, 64), "bytes": (4, 16)}
    return (
        _row("exact", "product_int8", _integer_product, product, _SIZES),
        _row("exact", "product_uint8", _integer_product, unsigned, _SIZES),
        _row("exact", "product_int4", _integer_product, few, _SIZES),
        _row("exact", "product_zero_points", _integer_product_with_zero_points, product, _SIZES),
        *(
            _row("exact", f"pack_{n}_bits", _pack, {"x": f"uint8[rows, {8 // n} * bytes] integers(0, {2**n})"},
                 {**bits, "bits": n})
            for n in (1, 2, 4)
        ),
        *(
            _row("exact", f"unpack_{n}_bits", _unpack, {"x": "uint8[rows, bytes] integers(0, 256)"},
                 {**bits, "bits": n})
            for n in (2, 4)
        ),
        _row("exact", "product_of_signs", _binary_product,
             {"x": "uint8[rows, bytes] integers(0, 256)", "w": "uint8[columns, bytes] integers(0, 256)"},
             {"rows": (16, 32), "columns": (16, 32), "bytes": (3, 12)}),
        _row("exact", "fixed_point_scale", _shifted, {"x": "int32[rows, columns] integers(-100000, 100000)"}, _SIZES),
        _row("exact", "table_sum", _looked_up,
             {"code": "uint8[rows, columns] integers(0, 16)", "table": "int32[16] integers(-500, 500)"}, _SIZES),
    )  # fmt: skip


def _scaled() -> tuple[Row, ...]:
    code = {"code": f"int8[rows, groups * size] {_I8}", "scale": "float32[rows, groups] uniform(0.01, 0.1)"}
    x = {"x": "float32[batch, groups * size]"}
    sizes: dict[str, Size] = {**_GROUPED, "batch": (8, 32)}
    made: tuple[tuple[str, Callable[..., Tensor | tuple[Tensor, ...]], dict[str, str], dict[str, Size]], ...] = (
        ("weights_int8", _dequantised, code, sizes),
        ("weights_int4", _dequantised, {**code, "code": "int8[rows, groups * size] integers(-8, 8)"}, sizes),
        ("weights_uint4_zero", _dequantised_with_zero,
         {**code, "code": "uint8[rows, groups * size] integers(0, 16)", "zero": "uint8[rows, groups] integers(0, 16)"},
         sizes),
        ("product_weight_only", _weight_only_product, {**x, **code}, sizes),
        ("product_packed_int4", _packed_product,
         {**x, "packed": "uint8[rows, groups * (size // 2)] integers(0, 256)", "scale": code["scale"]}, sizes),
        ("product_int8_scaled", _integer_product_scaled,
         {"x": f"int8[rows, inner] {_I8}", "w": f"int8[inner, columns] {_I8}",
          "scale_x": "float32[rows] uniform(0.01, 0.1)", "scale_w": "float32[columns] uniform(0.01, 0.1)"}, _SIZES),
        ("scales_of_groups", _quantised_by_group, {"x": "float32[rows, groups, size]"}, sizes),
        ("float8_rows", _through_float8,
         {"x": "uint8[rows, columns] integers(0, 120)", "scale": "float32[rows] uniform(0.5, 2)"}, _SIZES),
        ("block_exponents", _block_scaled,
         {"code": f"int8[rows, groups, size] {_I8}", "exponent": "int8[rows, groups] integers(-10, 3)"}, sizes),
        ("attention_int8_keys", _quantised_cache,
         {"q": "float32[batch, dim]", "key": f"int8[rows, dim] {_I8}", "scale": "float32[rows] uniform(0.005, 0.02)"},
         {"batch": (4, 16), "rows": (24, 80), "dim": (16, 48)}),
        ("codebook", _codebook,
         {"code": "uint8[rows, columns] integers(0, 16)", "book": "float32[16]",
          "scale": "float32[rows] uniform(0.5, 2)"},
         _SIZES),
    )  # fmt: skip
    return tuple(_row("scaled", n, f, arguments, used, contract=STRICT) for n, f, arguments, used in made)


def _stochastic() -> tuple[Row, ...]:
    x = {"x": "float32[rows, columns]"}
    sizes: dict[str, Size] = {"rows": (8, 16), "columns": (8, 24)}
    return (
        _row("stochastic", "half_steps", _rounded_at_random, x, sizes),
        _row("stochastic", "eighth_steps", _rounded_at_random, x, {**sizes, "step": 0.125}),
        _row("stochastic", "codes_by_row", _rounded_at_random_with_scale,
             {**x, "scale": "float32[rows] uniform(0.2, 0.5)"}, sizes),
        _row("stochastic", "dithered", _dithered, x, sizes),
        _row("stochastic", "one_bit", _one_bit_at_random, x, sizes),
        _row("stochastic", "coarse_update", _rounded_update,
             {"w": "float32[rows, columns]", "g": "float32[rows, columns]"}, sizes),
    )  # fmt: skip


def _saturated() -> tuple[Row, ...]:
    def pair(dtype: str, low: int, high: int) -> dict[str, str]:
        return {name: f"{dtype}[rows, columns] integers({low}, {high})" for name in "xy"}

    unsigned: dict[str, Size] = {"low": 0, "high": 255}
    wide: dict[str, Size] = {"low": -32768, "high": 32767}
    x = {"x": "float32[rows, columns] normal(20)"}
    return (
        _row("saturated", "add_int8", _added, pair("int8", -128, 128), _SIZES),
        _row("saturated", "add_uint8", _added, pair("uint8", 0, 256), {**_SIZES, **unsigned}),
        _row("saturated", "add_int16", _added, pair("int16", -32768, 32768), {**_SIZES, **wide}),
        _row("saturated", "subtract_uint8", _subtracted, pair("uint8", 0, 256), {**_SIZES, **unsigned}),
        _row("saturated", "multiply_int8", _multiplied, pair("int8", -128, 128), {**_SIZES, "shift": 6}),
        _row("saturated", "requantise", _requantised, {"x": "int32[rows, columns] integers(-30000, 30000)"}, _SIZES),
        _row("saturated", "quantise", _quantised_exactly, x, _SIZES),
        _row("saturated", "product_relu", _relu_product,
             {"x": "uint8[rows, inner] integers(0, 256)", "w": f"int8[inner, columns] {_I8}",
              "bias": "int32[columns] integers(-2000, 2000)"}, _SIZES),
        _row("saturated", "float8", _narrowed, {"x": "float32[rows, columns] normal(300)"}, _SIZES, regimes=()),
    )  # fmt: skip
