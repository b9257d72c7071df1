"""What an H200 gives where the PTX ISA leaves something open, or where it was read wrongly: numbers measured on one."""

import numpy as np
import pytest
from benchmarks.gpu.instructions import plain
from benchmarks.gpu.matrices import MMA, bits_of, mma_program, operand, wgmma_program

from kernelwright.executor import Module, Options, TensorMap, Uninitialised

from .semantics import ptx
from .test_bulk import DUMP, MAP, WAIT, load, program

INSTRUCTIONS = [
    ("rem.u32 {d}, {a}, {b};", (32, 32, 32), (0x864B9228, 0), 0xFFFFFFFF),
    ("rem.s16 {d}, {a}, {b};", (16, 16, 16), (0x1A65, 0), 0xFFFF),
    ("{{ .reg .pred q; testp.normal.f32 q, {a}; selp.b32 {d}, 1, 0, q; }}", (32, 32), (0x80000000,), 1),
    ("cvt.rn.relu.bf16.f32 {d}, {a};", (16, 32), (0x80000000,), 0),
    ("cvt.rn.satfinite.relu.e4m3x2.f32 {d}, {a}, {b};", (16, 32, 32), (0x80000000, 0x40F3F373), 0x4F),
    ("fma.rn.ftz.relu.f16 {d}, {a}, {b}, {c};", (16, 16, 16, 16), (0x377D, 0x8000, 0x8000), 0),
    ("cvt.rm.ftz.f16.f32 {d}, {a};", (16, 32), (0x80000001,), 0x8001),
    ("rcp.approx.ftz.f64 {d}, {a};", (64, 64), (0x3EDFDFD4E7E10130,), 0x4100102600000000),
    ("rcp.approx.ftz.f64 {d}, {a};", (64, 64), (0xFFEFFFFFFFFFFFFF,), 0x8000000000000000),
    ("rsqrt.approx.ftz.f64 {d}, {a};", (64, 64), (0x000FFFFFFFFFFFFF,), 0x7FF0000000000000),
    ("cos.approx.ftz.f32 {d}, {a};", (32, 32), (0xE627563B,), 0x3F800000),
    ("sin.approx.f32 {d}, {a};", (32, 32), (0x7257FB71,), 0),
]


def test_single_instructions_give_what_a_device_gives():
    cases = [plain(text, *widths) for text, widths, _, _ in INSTRUCTIONS]
    given, got = np.zeros((len(cases), 3, 32), np.uint64), np.zeros((len(cases), 32), np.uint64)
    for n, (_, _, operands, _) in enumerate(INSTRUCTIONS):
        given[n, : len(operands)] = np.array(operands, np.uint64)[:, None]
    run = Module.load(ptx(cases))["fuzz"](1, 32, [given, got], options=Options(races=False, count=False))
    assert run.ok, run.findings
    assert [hex(x) for x in got[:, 5]] == [hex(x) for *_, x in INSTRUCTIONS]


@pytest.mark.parametrize(("x", "cosine"), [(-751882.75, 0x3F0E39D8), (-42629792.0, 0xBF800000)])
def test_great_angles_lose_what_a_device_loses(x, cosine):
    case = plain("cos.approx.ftz.f32 {d}, {a};", 32, 32)
    given, got = np.zeros((1, 3, 32), np.uint64), np.zeros((1, 32), np.uint64)
    given[0, 0] = np.float32(x).view(np.uint32)
    Module.load(ptx([case]))["fuzz"](1, 32, [given, got])
    there = got[0, :1].astype(np.uint32).view(np.float32)[0]
    assert abs(there - np.uint32(cosine).view(np.float32)) < 2e-7
    assert abs(there - np.cos(np.float64(np.float32(x)))) > 0.01


F16_A = [-0.400390625, -1.38671875, 0.353759765625, -0.61474609375, -0.64990234375, -0.1263427734375, 0.231201171875,
         -0.57421875, -2.05859375, 1.025390625, 0.1143798828125, 0.6162109375, -1.53125, 1.0986328125, -0.71533203125,
         0.40576171875]  # fmt: skip
F16_B = [0.18408203125, -1.376953125, -1.044921875, -0.92724609375, 1.8134765625, 0.900390625, 0.73828125,
         -1.0419921875, 0.60595703125, -0.990234375, 0.10260009765625, 0.1513671875, 2.04296875, -0.9111328125,
         0.7783203125, -0.05584716796875]  # fmt: skip
TF32_A = [-0.57275390625, -0.055999755859375, 0.1448974609375, -0.8154296875, 0.0689697265625, 0.1900634765625,
          1.9169921875, -0.92138671875]  # fmt: skip
TF32_B = [0.1456298828125, -0.1673583984375, -0.87353515625, -1.884765625, -0.822265625, 2.23046875, -0.583984375,
          -1.3671875]  # fmt: skip
FP8_A = [-8.0, -0.8125, -1.25, -1.0, 11.0, -30.0, -0.9375, -0.15625, 3.0, -0.029296875, -0.9375, 0.875, 0.1171875, -3.0,
         0.078125, -2.25, -2.0, -2.0, 0.0, 1.5, -1.75, 0.21875, 1.375, -0.03125, -1.375, 10.0, 6.0, 0.75, -0.125, 6.0,
         -0.125, 0.171875]  # fmt: skip
FP8_B = [-20.0, 0.078125, -1.5, 0.00390625, -0.009765625, -0.0009765625, -0.001220703125, -1.0, -80.0, -0.1875, 4.0,
         3.5, -0.000732421875, 0.109375, 2.5, 0.125, -0.078125, 5.0, -0.875, -0.0006103515625, 56.0, -1.0,
         0.00146484375, -0.000244140625, 0.013671875, 6.0, -0.00042724609375, -0.000732421875, -0.0625, -24.0, 0.078125,
         -56.0]  # fmt: skip
SUMS = [
    (("m16n8k16", "f16", "f16", "f32"), F16_A, F16_B, 0.7778006196022034, 0xC0926DD3, 0xC0926DD4),
    pytest.param(("m16n8k8", "tf32", "tf32", "f32"), TF32_A, TF32_B, -1.1143792867660522, 0x3F3AB5DE, 0x3F3AB5DC,
                 marks=pytest.mark.long),
    (("m16n8k32", "e4m3", "e5m2", "f32"), FP8_A, FP8_B, 9.316872456111014e-05, 0xC38C75AF, 0xC38C75AF),
]  # fmt: skip
"""Form, a row of A, a column of B, an element of C; the element of D on a device, and with sums in float."""


def first_registers(values, kind):
    """Return the words along k of a row, or of a column: register by register, of lanes 0 to 3."""
    return np.ascontiguousarray(bits_of(np.array(values), kind)).view(np.uint32).reshape(-1, 4)


@pytest.mark.parametrize(("form", "a", "b", "c", "device", "plain_sum"), SUMS, ids=["f16", "tf32", "fp8"])
def test_products_are_added_as_a_device_adds(form, a, b, c, device, plain_sum):
    na, nb, _ = MMA[form]
    fa, fb, fc = np.zeros((32, na), np.uint32), np.zeros((32, nb), np.uint32), np.zeros((32, 4), np.float32)
    for register, words in enumerate(first_registers(a, form[1])):
        fa[:4, 2 * register] = words  # every second register is of rows 8 to 15
    for register, words in enumerate(first_registers(b, form[2])):
        fb[:4, register] = words
    fc[0, 0] = c
    kernel = Module.load(mma_program(form, MMA[form]))["k"]
    for hopper, expected in ((True, device), (False, plain_sum)):
        d = np.zeros((32, 4), np.float32)
        run = kernel(1, 32, [fa, fb, fc, Uninitialised(d)], options=Options(hopper_sums=hopper, races=False))
        assert run.ok, run.findings
        assert hex(d.view(np.uint32)[0, 0]) == hex(expected)


def test_a_warpgroup_adds_products_of_fp8_coarsely():
    a = bytes.fromhex("2e40a4c33834383039279f2b973b3039b9b5b0be9930b0b51bb024a3283018ac")
    b = bytes.fromhex("3534a4be28c29cbd00bb41a5b1b9b3aeb5aba9a0b540c2a5a93837b1b0883b1d")
    memory = [np.zeros(16 << 10, np.uint8), np.zeros(32 << 10, np.uint8)]
    for into, row in zip(memory, (a, b), strict=True):  # pieces of 8 x 16 bytes
        into[:16], into[128:144] = np.frombuffer(row, np.uint8).reshape(2, 16)
    c = np.zeros((128, 4), np.float32)
    c[0, 0] = np.uint32(0x402654C3).view(np.float32)
    kernel = Module.load(wgmma_program(8, "e4m3", "e4m3", "f32", False, (0, 0), (1, 1), True))["k"]
    words = [operand(0, False, rows, 1) for rows in (64, 8)]
    run = kernel(1, 128, [*memory, c, *words], options=Options(races=False, count=False))
    assert run.ok, run.findings
    assert hex(c.view(np.uint32)[0, 0]) == "0x40ee8000"  # in float it would be 0x40ee8262


def test_a_tile_that_begins_within_sixteen_bytes_is_no_instruction_of_a_device():
    out = np.zeros(1024, np.uint8)
    place = "ld.param.u32 %r6, [column]; mov.u32 %r7, 0;\n"
    kernel = program(
        MAP + ", .param .u32 column", place + load(2, "%r6, %r7", out.size) + WAIT + DUMP, out.size
    )
    x = np.zeros((12, 144), np.uint16)
    for column, kinds in ((8, set()), (4, {"misaligned"}), (-5, {"misaligned"})):
        run = kernel(1, 256, [TensorMap(x, (8, 64), swizzle=128), Uninitialised(out), column])
        assert {f.kind for f in run.findings} == kinds
