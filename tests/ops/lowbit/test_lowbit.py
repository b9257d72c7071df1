"""Low-bit linear layers: packing, values on real numbers, formats, gradients, errors."""

import itertools

import pytest
import torch

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import lowbit

KINDS = [("int", b) for b in range(1, 9)] + [("uint", b) for b in range(1, 9)]
KINDS += [(kind, None) for kind in ("e2m1", "e3m0", "e2m2", "e2m3", "e3m2", "e4m3", "e5m2", "e5m0", "e1m1")]
SIZES = [
    (1, 64, 64, 32),
    (1, 130, 100, 64),
    (5, 70, 515, 96),
    (1, 65, 600, 0),
    (33, 64, 300, 128),
    (7, 100, 1, 32),
]


def packed_of(kind, bits, outputs, inner, group, scale_dtype=torch.bfloat16):
    return lowbit.pack(torch.randn(outputs, inner), bits, group, kind, kind != "uint", scale_dtype)


EXACT = {torch.float32: 1.5e-7, torch.bfloat16: 2e-5}
"""Most error as a share of a row's largest number times the sum of sizes of weights: 24 and 16 bits."""
ROUNDED = {torch.float32: 1e-6, torch.bfloat16: 4e-3}
"""And of the result."""


def check(kind, bits, activations, scale_dtype):
    for rows, outputs, inner, group in SIZES:
        packed = packed_of(kind, bits, outputs, inner, group, scale_dtype)
        weight = lowbit.unpack(packed, torch.float64)
        for dtype in (torch.float32, torch.bfloat16):
            x, bias = torch.randn(rows, inner).to(dtype), torch.randn(outputs).to(dtype)
            out = lowbit.linear(x, packed, bias, activations=activations)
            (ran,) = ops.watch(lambda: lowbit.linear(x, packed, bias, activations=activations))  # noqa: B023
            taken = lowbit.reference.quantised(x.float(), packed.group) if activations == "int8" else x
            expected = taken.double() @ weight.T + bias.double()
            most = EXACT[dtype] * x.abs().amax(1, keepdim=True) * weight.abs().sum(1) + ROUNDED[dtype] * (
                expected.abs() + bias.abs()
            )
            assert ran.serves == "kernel"
            assert out.dtype is dtype
            assert bool(((out - expected).abs() <= most).all()), (rows, outputs, inner, group, dtype)


@pytest.mark.parametrize(("kind", "bits"), KINDS)
@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_kernel_multiplies_by_the_weight_that_unpack_returns(kind, bits, scale_dtype):
    check(kind, bits, "float", scale_dtype)


@pytest.mark.parametrize(
    ("kind", "bits"), [("int", 1), ("int", 4), ("int", 8), ("uint", 3), ("uint", 8), ("e2m1", None)]
)
def test_activations_as_int8_are_those_of_the_reference(kind, bits):
    check(kind, bits, "int8", torch.bfloat16)


@pytest.mark.parametrize("bits", range(1, 9))
def test_every_code_comes_back(bits):
    codes = (torch.randperm(67 * 70) % (1 << bits)).to(torch.uint8).view(67, 70)
    packed = lowbit.of(codes, torch.ones(67, 1), bits=bits, group=0)
    assert packed.codes.numel() == 128 * 96 * bits // 8
    assert torch.equal(lowbit.unpack(packed), codes.float())
    assert torch.equal(lowbit.linear(torch.eye(70), packed), codes.T.float())


def test_small_floats_are_those_of_torch():
    codes = torch.arange(256, dtype=torch.uint8)
    for exponent, dtype in ((4, torch.float8_e4m3fn), (5, torch.float8_e5m2)):
        expected = codes.view(dtype).float()
        known = expected.isfinite()
        found = lowbit.reference.values_of(codes.long(), 8, exponent, torch.float32)
        assert torch.equal(found[known], expected[known])
    fp4 = lowbit.reference.values_of(torch.arange(16), 4, 2, torch.float32)
    assert fp4[:8].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert torch.equal(fp4[8:], -fp4[:8])


@pytest.mark.parametrize(("kind", "dtype"), [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_packing_rounds_small_floats_as_torch_does(kind, dtype):
    weight = torch.randn(64, 256)
    packed = lowbit.pack(weight, None, 32, kind, scale_dtype=torch.float32)
    scale = packed.scales.transpose(1, 2).reshape(64, -1).repeat_interleave(32, 1)
    torch.testing.assert_close(lowbit.unpack(packed), (weight / scale).to(dtype).float() * scale)


@pytest.mark.parametrize(("bits", "symmetric"), [(b, s) for b in range(2, 9) for s in (True, False)])
def test_packing_takes_the_nearest_code(bits, symmetric):
    weight = torch.randn(40, 128)
    packed = lowbit.pack(weight, bits, 32, symmetric=symmetric, scale_dtype=torch.float32)
    steps = packed.scales.transpose(1, 2).reshape(-1, 4)[:40].repeat_interleave(32, 1)
    # A zero point that is rounded shifts a range by up to half a step, so its ends may be a whole step away.
    assert bool(((lowbit.unpack(packed) - weight).abs() <= steps * (0.5 if symmetric else 1.0) * 1.001).all())


def test_special_values_reach_the_rows_that_have_them():
    packed = packed_of("int", 4, 70, 100, 32)
    weight = lowbit.unpack(packed)
    x = torch.randn(5, 100)
    x[1, 3], x[2, 50], x[3] = float("nan"), float("inf"), 1e-38
    for activations in ("float", "int8"):
        out = lowbit.linear(x, packed, activations=activations)
        assert bool(out[1].isnan().all())
        assert bool(out[[0, 4]].isfinite().all())
        if activations == "float":
            torch.testing.assert_close(out, x @ weight.T, equal_nan=True, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(out[3], x[3] @ weight.T, rtol=1e-4, atol=0)


def test_magnitudes_that_differ_by_block_keep_their_digits():
    x = torch.randn(2, 256) * torch.tensor([1e-12, 1.0, 1e12, 1e-3, 1e6, 1.0, 1e-9, 1e3]).repeat_interleave(
        32
    )
    weight = torch.zeros(64, 256)
    weight[:, :32] = torch.randn(64, 32)
    packed = lowbit.pack(weight, 4, 32)
    expected = x.double() @ lowbit.unpack(packed, torch.float64).T
    torch.testing.assert_close(lowbit.linear(x, packed).double(), expected, rtol=1e-4, atol=1e-17)


def test_rows_of_any_layout_and_shape():
    packed = packed_of("int", 4, 48, 96, 32)
    x = torch.randn(96, 10).T
    wide = torch.randn(10, 192)[:, ::2]
    for rows in (x, wide, torch.randn(2, 5, 96), torch.randn(96), torch.randn(0, 96), torch.randn(2, 0, 96)):
        out = lowbit.linear(rows, packed)
        assert out.shape == (*rows.shape[:-1], 48)
        torch.testing.assert_close(out, rows @ lowbit.unpack(packed).T, rtol=1e-4, atol=1e-4)


def test_one_row_and_many_agree_to_the_last_digit():
    packed = packed_of("int", 3, 100, 300, 64)
    x = torch.randn(9, 300)
    assert torch.equal(
        lowbit.linear(x, packed), torch.cat([lowbit.linear(row, packed) for row in x.split(1)])
    )


def test_gguf_is_read_as_it_is():
    outputs, inner = 3, 64
    for kind, size in (("Q4_0", 18), ("Q8_0", 34)):
        scales = torch.rand(outputs, inner // 32, dtype=torch.float16)
        body = torch.randint(0, 256, (outputs, inner // 32, size - 2), dtype=torch.uint8)
        data = torch.cat((scales.unsqueeze(2).contiguous().view(torch.uint8).view(outputs, -1, 2), body), 2)
        packed = lowbit.from_gguf(data, kind, (outputs, inner))
        for row in range(outputs):
            for block in range(inner // 32):
                for i in range(32):
                    byte = int(body[row, block, i % 16 if size == 18 else i])
                    value = (byte >> 4 * (i // 16) & 15) - 8 if size == 18 else byte - 256 * (byte > 127)
                    found = lowbit.unpack(packed)[row, block * 32 + i]
                    assert float(found) == value * float(scales[row, block])


def test_gguf_with_a_fifth_bit_and_with_small_floats_is_read_as_it_is():
    outputs, blocks = 3, 2
    halves = torch.randint(0, 256, (outputs, blocks, 16), dtype=torch.uint8)
    fifth = torch.randint(0, 256, (outputs, blocks, 4), dtype=torch.uint8)
    scales = torch.rand(outputs, blocks, 1, dtype=torch.float16)
    five = torch.cat((scales.view(torch.uint8), fifth, halves), 2)
    powers = torch.tensor([0, 1, 126, 127, 250, 251], dtype=torch.uint8).view(outputs, blocks, 1)
    mixed = torch.cat((powers, halves), 2)
    found = lowbit.unpack(lowbit.from_gguf(five, "Q5_0", (outputs, 64)))
    small = lowbit.unpack(lowbit.from_gguf(mixed, "MXFP4", (outputs, 64)))
    values = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    for row, block, i in itertools.product(range(outputs), range(blocks), range(32)):
        low = int(halves[row, block, i % 16]) >> 4 * (i // 16) & 15
        high = int(fifth[row, block, i // 8]) >> i % 8 & 1
        assert float(found[row, block * 32 + i]) == (low + 16 * high - 16) * float(scales[row, block, 0])
        value = values[low & 7] * (-1 if low & 8 else 1)
        assert float(small[row, block * 32 + i]) == value * 2.0 ** (int(powers[row, block, 0]) - 127)


def test_awq_is_read_as_it_is():
    inner, outputs, groups = 64, 16, 2
    values, zeros = torch.randint(0, 16, (inner, outputs)), torch.randint(0, 16, (groups, outputs))
    scales = torch.rand(groups, outputs, dtype=torch.float16)

    def words(x):
        packed = torch.zeros(len(x), outputs // 8, dtype=torch.int64)
        for i, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):  # nibble i of a word holds this column
            packed |= x[:, column::8] << 4 * i
        return packed.to(torch.uint32).view(torch.int32)

    packed = lowbit.from_awq(words(values), words(zeros), scales)
    each = inner // groups
    expected = (values - zeros.repeat_interleave(each, 0)) * scales.float().repeat_interleave(each, 0)
    torch.testing.assert_close(lowbit.unpack(packed), expected.T)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("shuffled", [False, True])
def test_gptq_is_read_as_it_is(bits, shuffled):
    inner, outputs, groups, each = 128, 32, 2, 32 // bits
    values = torch.randint(0, 1 << bits, (inner, outputs))
    zeros = torch.randint(0, (1 << bits) - 1, (groups, outputs))
    scales = torch.rand(groups, outputs, dtype=torch.float16)
    g_idx = torch.arange(inner) // (inner // groups)
    g_idx = g_idx[torch.randperm(inner)] if shuffled else g_idx

    def words(x):  # along the first axis
        packed = sum(x[i::each] << bits * i for i in range(each))
        return packed.to(torch.uint32).view(torch.int32)

    packed = lowbit.from_gptq(words(values), words(zeros.T).T.contiguous(), scales, g_idx, bits=bits)
    assert (packed.order is not None) == shuffled
    expected = ((values - (zeros + 1)[g_idx]) * scales.float()[g_idx]).T
    torch.testing.assert_close(lowbit.unpack(packed), expected)
    x = torch.randn(3, inner)
    torch.testing.assert_close(lowbit.linear(x, packed), x @ expected.T, rtol=1e-4, atol=1e-3)
    plain = lowbit.from_gptq(
        words(values), words(zeros.T).T.contiguous(), scales, g_idx, bits=bits, zeros_plus_one=False
    )
    torch.testing.assert_close(lowbit.unpack(plain), ((values - zeros[g_idx]) * scales.float()[g_idx]).T)


def test_a_module_replaces_a_linear_layer_and_keeps_its_state():
    layer = torch.nn.Linear(96, 40)
    small = lowbit.LowBitLinear.from_linear(layer, bits=8, group=32)
    x = torch.randn(4, 96)
    assert 0 < float((small(x) - layer(x)).detach().abs().max()) < 0.05
    other = lowbit.LowBitLinear.from_linear(torch.nn.Linear(96, 40), bits=8, group=32)
    other.load_state_dict(small.state_dict())
    assert torch.equal(other(x), small(x))
    assert "bits=8, group=32" in repr(small)


def test_gradients_are_those_of_the_weight_that_the_codes_stand_for():
    packed = packed_of("uint", 4, 30, 50, 32)
    x, bias = torch.randn(3, 50, requires_grad=True), torch.randn(30, requires_grad=True)
    given = torch.randn(3, 30)
    found = torch.autograd.grad(lowbit.linear(x, packed, bias), (x, bias), given)
    expected = torch.autograd.grad(
        torch.nn.functional.linear(x, lowbit.unpack(packed), bias), (x, bias), given
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_it_goes_through_compile():
    packed = packed_of("int", 4, 64, 64, 32)
    x = torch.randn(4, 64)
    compiled = torch.compile(lambda x: lowbit.linear(x, packed) + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), lowbit.linear(x, packed) + 1)


WEIGHT = torch.randn(8, 64)


BLOCK = torch.zeros(18, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lowbit.pack(WEIGHT, 9), "bits is 9; expected 1 to 8"),
        (lambda: lowbit.pack(WEIGHT, 4, 33), "group is 33; expected a multiple of 32"),
        (lambda: lowbit.pack(WEIGHT, kind="nf4"), "kind is 'nf4'; expected 'int', 'uint'"),
        (lambda: lowbit.pack(WEIGHT, 8, kind="e2m1"), "bits is 8; expected 4 or less, as e2m1 has"),
        (lambda: lowbit.pack(WEIGHT, kind="uint"), "weight is below zero somewhere"),
        (lambda: lowbit.pack(WEIGHT / 0), "weight is not finite"),
        (lambda: lowbit.pack(WEIGHT * 1e6, scale_dtype=torch.float16), "too narrow for these scales"),
        (lambda: lowbit.pack(WEIGHT[0]), r"weight is of shape \(64,\); expected a matrix"),
        (lambda: lowbit.of(WEIGHT.byte() | 16, torch.ones(8, 2), bits=4, group=32), "expected below 16"),
        (lambda: lowbit.of(WEIGHT.byte() & 1, torch.ones(8, 3), bits=4, group=32), "scales is of shape"),
        (lambda: lowbit.linear(torch.randn(2, 63), lowbit.pack(WEIGHT)), r"expected \(..., 64\)"),
        (lambda: lowbit.linear(torch.randn(2, 64), lowbit.pack(WEIGHT), torch.ones(9)), "bias is of shape"),
        (lambda: lowbit.linear(WEIGHT, lowbit.pack(WEIGHT), activations="int4"), "expected 'float' or 'int8'"),
        (lambda: lowbit.linear(WEIGHT.long(), lowbit.pack(WEIGHT)), "x is of torch.int64"),
        (lambda: lowbit.from_gguf(torch.zeros(17, dtype=torch.uint8), "Q4_0", (1, 32)), "expected 18 bytes"),
        (lambda: lowbit.from_gguf(BLOCK, "Q4", (1, 32)), "is 'Q4'; expected one of 'Q4_0', .*'Q8_0', 'MXFP4'"),
        (lambda: lowbit.from_gptq(WEIGHT.int(), WEIGHT.int(), WEIGHT, bits=3), "bits is 3; expected 2, 4 or 8"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert str(error.value).count("\n") == 0
