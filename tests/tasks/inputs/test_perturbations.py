"""Elements change to other values that are allowed, and nothing else does."""

import pytest
import torch

from kernelwright.records import Distribution, TensorSpec
from kernelwright.tasks.inputs._draw import draw, generator
from kernelwright.tasks.inputs.perturbations import changed

SOME = slice(2, 5)


def spec_of(kind: str, dtype: str = "float32", layout: str = "contiguous", **fields: float) -> TensorSpec:
    return TensorSpec(
        name="x", shape=(3, 4), dtype=dtype, layout=layout, distribution=Distribution(kind=kind, **fields)
    )


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
@pytest.mark.parametrize(
    ("kind", "dtype", "fields", "allowed"),
    [
        ("normal", "float32", {}, None),
        ("uniform", "float64", {"low": 1.0, "high": 2.0}, None),
        ("constant", "float32", {"low": 0.0}, {0, 1}),
        ("constant", "float16", {"low": 1.0}, {1, 2}),
        ("bernoulli", "float32", {"scale": 0.5}, {0, 1}),
        ("bernoulli", "int64", {"scale": 0.5}, {0, 1}),
        ("constant", "bool", {"low": 1.0}, {0, 1}),
        ("normal", "bool", {}, {0, 1}),
        ("constant", "int32", {"low": 5.0}, {4, 5}),
        ("constant", "int64", {"low": 0.0}, {0, 1}),
        ("constant", "uint8", {"low": 0.0}, {0, 1}),
        ("integers", "int64", {"low": 3.0, "high": 6.0}, {3, 4, 5}),
        ("integers", "int8", {"low": 125.0, "high": 128.0}, {125, 126, 127}),
        ("uniform", "int64", {}, {0, 1}),
    ],
)
def test_a_part_changes_within_what_is_allowed(kind, dtype, fields, allowed, layout):
    spec = spec_of(kind, dtype, layout, **fields)
    before = draw(spec, generator(3, "x"))
    after = changed(before, spec, SOME)
    assert after is not None
    assert (after.shape, after.dtype, after.stride()) == (before.shape, before.dtype, before.stride())
    differs = (after != before).flatten()
    assert differs.nonzero().flatten().tolist() == [2, 3, 4]
    assert allowed is None or set(after.flatten().tolist()) <= allowed
    assert torch.equal(before, draw(spec, generator(3, "x"))), "the argument itself stays as it was"


@pytest.mark.parametrize("kind", ["sorted", "offsets", "permutation", "probabilities", "triangular", "given"])
def test_what_is_declared_of_the_whole_is_kept(kind):
    assert changed(torch.rand(3, 4), spec_of(kind), SOME) is None


def test_where_there_is_no_other_value_nothing_changes():
    assert changed(torch.full((3, 4), 7), spec_of("integers", "int64", low=7.0, high=8.0), SOME) is None
    assert changed(torch.zeros(3, 4), spec_of("normal"), slice(0, 0)) is None
