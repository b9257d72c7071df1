"""High-level calls of Ascend C, executed: what is right is right, and planted faults are found."""

import re
from pathlib import Path

import pytest
import torch

from .ascendc import kernels, kind_at_mark

pytestmark = pytest.mark.long

SOURCE = Path(__file__).with_name("ascendc_library.cpp").read_text()
KINDS = {
    "row_of_30": "length", "more_than_a_row": "length", "other_shape": "length", "own_result": "overlap",
    "own_source": "overlap", "beyond": "out-of-bounds", "unordered": "race", "no_wait": "event",
}  # fmt: skip


@pytest.fixture(scope="module")
def through(tmp_path_factory):
    built = kernels(SOURCE, "sums", tmp_path_factory.mktemp("cache"))

    def run(name, x):
        z = torch.empty_like(x)
        built(name)(x, z)
        return z

    return run


@pytest.fixture
def x():
    return torch.randn(16, 32)


def test_functions_are_of_as_many_elements_as_are_named(through, x):
    torch.testing.assert_close(through("tanh_all", x), x.tanh())
    torch.testing.assert_close(through("sigmoid_all", x), x.sigmoid())
    for name, given, expected in (("tanh_some", x.half(), x.half().tanh()), ("sigmoid_some", x, x.sigmoid())):
        found = through(name, given).flatten()
        torch.testing.assert_close(found[:100], expected.flatten()[:100])
        assert not found[100:].any()


def test_other_functions_are_those_of_their_names(through, x):
    torch.testing.assert_close(through("erf_all", x), x.erf())
    torch.testing.assert_close(through("atan_all", x), x.atan())
    torch.testing.assert_close(through("frac_all", x), x.frac())
    torch.testing.assert_close(through("silu_all", x), torch.nn.functional.silu(x))
    torch.testing.assert_close(through("gelu_all", x), torch.nn.functional.gelu(x, approximate="tanh"))
    half = x.half()
    assert torch.equal(through("floor_all", half), half.floor())
    torch.testing.assert_close(through("sin_some", half).flatten()[:100], half.sin().flatten()[:100])


def test_sums_and_means_are_of_the_part_of_a_row_that_counts(through, x):
    torch.testing.assert_close(through("sums", x).flatten()[:16], x[:, :30].sum(1))
    half = x.half()
    torch.testing.assert_close(through("means", half).flatten()[:16], half[:, :30].float().mean(1).half())


def test_a_row_and_a_column_are_spread(through, x):
    assert torch.equal(through("broadcast_row", x), x[:1].expand(16, 32))
    half = x.half()
    column = half.flatten()[:16, None]
    assert torch.equal(through("broadcast_column", half), column.expand(16, 32))


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_fault_is_found_at_its_line(through, x, name):
    with pytest.raises(RuntimeError) as caught:
        through(f"wrong_{name}", x)
    assert kind_at_mark(SOURCE, name, caught) == KINDS[name]


def test_every_fault_of_the_file_is_tried():
    assert {*re.findall(r"^WRONG\((\w+)", SOURCE, re.MULTILINE)} == {*KINDS}
