"""Ascend C on the cube unit, executed: right products are right, and each planted fault is found at its line."""

import re
from pathlib import Path

import pytest
import torch

from .ascendc import kernels, kind_at_mark

pytestmark = pytest.mark.long

SOURCE = Path(__file__).with_name("ascendc_cube.cpp").read_text()
KINDS = {
    "l1_full": "l1-overflow", "l0a_full": "l0a-overflow", "l0c_full": "l0c-overflow", "a2_start": "misaligned",
    "c_start": "misaligned", "b1_not_queued": "race", "b2_not_queued": "race", "c_not_queued": "race",
    "not_initial": "uninitialised", "no_barrier": "race", "fractal_beyond": "out-of-bounds", "position": "position",
    "float_transposed": "length", "k_beyond": "out-of-bounds", "quantised": "quant", "rows_meet": "overlap",
    "vector_here": "core", "l0a_reused": "race", "c0_stride": "overlap", "c0_limit": "length", "tiles_meet": "race",
    "product_size": "length",
}  # fmt: skip
CROSS = {
    "no_flag": "race", "no_set": "event", "left": "event", "often": "event", "wrong_pipe": "race", "core": "core",
}  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return kernels(SOURCE, "row", tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (48, 80, 96), (34, 24, 40), (70, 40, 33)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int8])
def test_a_product_by_tiles_is_right(built, dtype, m, n, k):
    if dtype is torch.int8:
        a, b = torch.randint(-9, 9, (m, k), dtype=dtype), torch.randint(-9, 9, (k, n), dtype=dtype)
    else:
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    wide = {torch.int8: torch.int32}.get(dtype, torch.float32)
    out = torch.empty(m, n, dtype=torch.bfloat16 if dtype is torch.bfloat16 else wide)
    name = {"float16": "half", "float32": "float"}.get(str(dtype)[6:], str(dtype)[6:])
    built(f"product_{name}")(a, b, torch.zeros(n, dtype=wide), out)
    exact = a.double() @ b.double()
    if dtype is torch.int8:
        assert torch.equal(out.double(), exact)
    else:
        torch.testing.assert_close(
            out.double(), exact, rtol=8e-3 if dtype is torch.bfloat16 else 1e-4, atol=1e-3
        )


def test_a_bias_is_added_from_the_bias_table_and_relu_on_the_way_out(built):
    a, b, bias = torch.randn(40, 64).half(), torch.randn(64, 48).half(), torch.randn(48)
    out = torch.empty(40, 48, dtype=torch.float16)
    built("product_bias")(a, b, bias, out)
    exact = torch.relu(a.double() @ b.double() + bias.double())
    torch.testing.assert_close(out.double(), exact, rtol=2e-3, atol=2e-3)


def test_a_row_is_taken_without_fractals(built):
    a, b, out = torch.randn(1, 256).half(), torch.randn(256, 16).half(), torch.empty(1, 16)
    built("row")(a, b, out)
    torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-3)


def test_a_last_row_in_fractals_is_not_what_the_cube_unit_takes(built):
    a, b, out = torch.randn(33, 32).half(), torch.randn(32, 32).half(), torch.empty(33, 32)
    with pytest.raises(RuntimeError, match=r"uninitialised at .*: Mmad reads byte 32 of the L0A Buffer"):
        built("product_half")(a, b, torch.zeros(32), out)


def test_vector_cores_go_on_with_what_their_cube_core_made(built):
    a, b, out = torch.randn(96, 64).half(), torch.randn(64, 64).half(), torch.empty(96, 64)
    built("leaky_cross_none")(a, b, out)
    exact = torch.nn.functional.leaky_relu(a.double() @ b.double(), 0.5)
    torch.testing.assert_close(out.double(), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", CROSS)
def test_a_fault_between_cores_is_found_at_its_line(built, name):
    a, b, out = torch.randn(64, 64).half(), torch.randn(64, 64).half(), torch.empty(64, 64)
    with pytest.raises(RuntimeError) as caught:
        built(f"leaky_cross_{name}")(a, b, out)
    assert kind_at_mark(SOURCE, f"cross_{name}", caught) == CROSS[name]


def test_the_product_that_the_faults_are_planted_in_is_right_without_one(built):
    a, b, out = torch.randn(32, 32).half(), torch.randn(32, 32).half(), torch.empty(32, 32)
    built("wrong_none")(a, b, out)
    torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_fault_is_found_at_its_line(built, name):
    a, b, out = torch.randn(32, 32).half(), torch.randn(32, 32).half(), torch.empty(32, 32)
    with pytest.raises(RuntimeError) as caught:
        built(f"wrong_{name}")(a, b, out)
    assert kind_at_mark(SOURCE, name, caught) == KINDS[name]


def test_every_fault_of_the_file_is_tried():
    listed = re.findall(r"F\((\w+)\)", SOURCE.split("#define FAULTS(F)")[1].split("enum Fault")[0])
    assert {*listed} - {"none"} == {*KINDS}
