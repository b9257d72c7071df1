"""GGUF's blocks: each kind by its formula, one number at a time, against ggml's package, multiplied by the kernel."""

import math
import struct

import pytest
import torch
from tests.tools import require

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import lowbit
from kernelwright.ops.lowbit._gguf import KINDS

HALVES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "MXFP4": (),
}  # fmt: skip
"""Where a block has its float16 numbers."""


def blocks(kind: str, count: int) -> torch.Tensor:
    """Return random blocks, their numbers of float16 between 1/64 and 1/16, the power of MXFP4 near one."""
    data = torch.randint(0, 256, (count, KINDS[kind][0]), dtype=torch.uint8)
    for at in HALVES[kind]:
        numbers = torch.empty(count).uniform_(1 / 64, 1 / 16).half().view(torch.uint8).view(count, 2)
        data[:, at : at + 2] = numbers
    if kind == "MXFP4":
        data[:, 0] = torch.randint(120, 128, (count,), dtype=torch.uint8)
    return data


def half(block: bytes, at: int) -> float:
    return struct.unpack_from("<e", block, at)[0]


def six(block: bytes, at: int, group: int) -> tuple[int, int]:
    """Return scale and minimum of a group of 32: six bits each, the last four groups in pieces."""
    twelve = block[at : at + 12]
    if group < 4:
        return twelve[group] & 63, twelve[group + 4] & 63
    pair = twelve[group + 4]
    return pair & 15 | (twelve[group - 4] >> 6) << 4, pair >> 4 | (twelve[group] >> 6) << 4


def value(kind: str, block: bytes, i: int) -> float:
    """Return number i of a block, as the comments of ggml-common.h say."""
    if kind in ("Q4_1", "Q5_1"):
        at = 4 if kind == "Q4_1" else 8
        code = block[at + i % 16] >> 4 * (i // 16) & 15
        if kind == "Q5_1":
            code += 16 * (block[4 + i // 8] >> i % 8 & 1)
        return half(block, 0) * code + half(block, 2)
    if kind in ("Q4_K", "Q5_K"):
        group, at = i // 32, 16 if kind == "Q4_K" else 48
        code = block[at + group // 2 * 32 + i % 32] >> 4 * (group % 2) & 15
        if kind == "Q5_K":
            code += 16 * (block[16 + i % 32] >> group & 1)
        scale, least = six(block, 4, group)
        return half(block, 0) * scale * code - half(block, 2) * least
    part, within = i // 128, i % 128
    if kind == "Q6_K":
        low = block[part * 64 + within % 64] >> 4 * (within // 64) & 15
        high = block[128 + part * 32 + within % 32] >> 2 * (within // 32) & 3
        scale = struct.unpack_from("b", block, 192 + i // 16)[0]
        return half(block, 208) * scale * (low + 16 * high - 32)
    at = 16 if kind == "Q2_K" else 32
    code = block[at + part * 32 + within % 32] >> 2 * (within // 32) & 3
    if kind == "Q2_K":
        both = block[i // 16]
        return half(block, 80) * (both & 15) * code - half(block, 82) * (both >> 4)
    j = i // 16
    low = block[96 + j % 8] >> 4 * (j // 8) & 15
    scale = low + 16 * (block[104 + j % 4] >> 2 * (j // 4) & 3) - 32
    return half(block, 108) * scale * (code - (0 if block[i % 32] >> (i // 32) & 1 else 4))


@pytest.mark.parametrize("kind", ["Q4_1", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_a_kind_is_read_by_its_formula(kind):
    columns = KINDS[kind][1]
    data = blocks(kind, 6)
    found = lowbit.unpack(lowbit.from_gguf(data, kind, (3, 2 * columns)), torch.float64).reshape(6, columns)
    for n, block in enumerate(bytes(one.tolist()) for one in data):
        for i in range(columns):
            expected = value(kind, block, i)
            assert math.isclose(float(found[n, i]), expected, rel_tol=1e-12, abs_tol=1e-12), (kind, n, i)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_read_as_ggml_reads_it(kind):
    require("gguf")
    from gguf import GGMLQuantizationType, quants

    data = blocks(kind, 15)
    expected = torch.from_numpy(quants.dequantize(data.numpy(), GGMLQuantizationType[kind])).reshape(5, -1)
    assert torch.equal(lowbit.unpack(lowbit.from_gguf(data, kind, tuple(expected.shape))), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_multiplies_by_what_was_read(kind, dtype):
    columns, outputs = KINDS[kind][1], 70
    packed = lowbit.from_gguf(blocks(kind, 3 * outputs), kind, (outputs, 3 * columns))
    weight = lowbit.unpack(packed, torch.float64)
    for rows in (1, 2, 7, 33):
        x = torch.randn(rows, 3 * columns).to(dtype)
        found = []
        (ran,) = ops.watch(lambda: found.append(lowbit.linear(x, packed)))  # noqa: B023  called at once
        assert ran.serves == "kernel"
        expected = x.double() @ weight.T
        # Twice, as code times scale and the minimum are summed apart: what cancels keeps the error of both.
        sizes = 2 * weight.abs().sum(1) + (0 if packed.minima is None else _sizes_of(packed))
        most = (
            {torch.float32: 1.5e-7, torch.bfloat16: 2e-5}[dtype]
            * x.double().abs().amax(1, keepdim=True)
            * sizes
        )
        rounded = {torch.float32: 1e-6, torch.bfloat16: 4e-3}[dtype] * expected.abs()
        assert bool(((found[0] - expected).abs() <= most + rounded).all()), rows


def _sizes_of(packed: lowbit.PackedWeight) -> torch.Tensor:
    """Return of each output the sum of sizes of what begins its groups."""
    minima = packed.minima.transpose(1, 2).reshape(-1, packed.minima.shape[1])[: packed.outputs]
    return 4 * minima.double().abs().sum(1) * packed.group


def test_groups_of_sixteen_take_no_activations_of_eight_bits():
    packed = lowbit.from_gguf(blocks("Q6_K", 2), "Q6_K", (2, 256))
    with pytest.warns(RuntimeWarning, match="groups are of 16 columns"):
        ops.ops_of(lowbit)[0]._said.clear()
        (ran,) = ops.watch(lambda: lowbit.linear(torch.randn(2, 256), packed, activations="int8"))
    assert ran.serves == "reference"


@pytest.mark.parametrize("activations", ["float", "int8"])
def test_minima_go_with_zero_points_order_layers_and_gradients(activations):
    packed = lowbit.from_gguf(blocks("Q4_1", 2 * 66), "Q4_1", (66, 64))
    codes = torch.randint(0, 16, (66, 64), dtype=torch.uint8)
    scales, minima = torch.rand(66, 2), torch.randn(66, 2)
    zeros, order = torch.randint(0, 16, (66, 2), dtype=torch.uint8), torch.randperm(64)
    full = lowbit.of(codes, scales, zeros, bits=4, group=32, order=order, minima=minima)
    wide = (codes.double() - zeros.repeat_interleave(32, 1)) * scales.double().repeat_interleave(32, 1)
    expected = torch.empty(66, 64, dtype=torch.float64)
    expected[:, order] = wide + minima.double().repeat_interleave(32, 1)
    torch.testing.assert_close(lowbit.unpack(full, torch.float64), expected)
    for weight in (packed, full):
        x = torch.randint(-127, 128, (3, 64)).float() / 8
        x[:, ::32] = x[:, 1::32] = 127 / 8  # so that 8 bits hold every number
        layer = lowbit.LowBitLinear(weight, torch.ones(66), activations=activations)
        leaf = x.clone().requires_grad_()
        out = layer(leaf)
        right = lowbit.unpack(weight, torch.float64)
        if activations == "float":
            torch.testing.assert_close(out.double(), x.double() @ right.T + 1, rtol=1e-5, atol=1e-3)
        else:
            torch.testing.assert_close(out.double(), x.double() @ right.T + 1, rtol=2e-2, atol=2.0)
        out.sum().backward()
        torch.testing.assert_close(leaf.grad[0].double(), right.sum(0), rtol=1e-4, atol=1e-3)
    assert packed.nbytes == packed.codes.numel() + 2 * 2 * packed.scales.numel()


def test_minima_that_do_not_fit_are_named():
    codes, scales = torch.zeros(2, 32, dtype=torch.uint8), torch.ones(2, 1)
    for minima in (torch.ones(2, 2), torch.ones(2, 1).half()):
        with pytest.raises(InputError, match="minima is of shape"):
            lowbit.of(codes, scales, bits=4, group=32, minima=minima)
    with pytest.raises(InputError, match="kind is 'IQ2_XS'; expected one of 'Q4_0'"):
        lowbit.from_gguf(codes, "IQ2_XS", (1, 32))
    with pytest.raises(InputError, match="a multiple of 256 columns"):
        lowbit.from_gguf(codes, "Q4_K", (1, 32))
