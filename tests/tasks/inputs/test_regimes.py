"""Regimes: what their names promise, and only on free values."""

import pytest
import torch

from kernelwright.records import Distribution, TensorSpec
from kernelwright.tasks.inputs._draw import generator
from kernelwright.tasks.inputs.regimes import REGIMES, draw_in, takes_regime, without_infinity

FREE = TensorSpec(name="x", shape=(64, 100), dtype="float32")
STRUCTURED = [
    TensorSpec(name="x", shape=(8, 8), dtype="float32", distribution=Distribution(kind=kind))
    for kind in ("probabilities", "sorted", "triangular", "constant")
]


def _in(regime: str, spec: TensorSpec = FREE) -> torch.Tensor:
    return draw_in(regime, spec, generator(3, "x"))


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_is_deterministic_and_fits_the_spec(regime: str) -> None:
    first, again = _in(regime), _in(regime)
    assert torch.equal(first.nan_to_num(), again.nan_to_num())
    assert (first.shape, first.dtype) == (torch.Size(FREE.shape), torch.float32)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("spec", STRUCTURED, ids=lambda s: s.distribution.kind)
def test_structured_values_are_left_as_declared(regime: str, spec: TensorSpec) -> None:
    assert not takes_regime(spec)
    assert torch.equal(_in(regime, spec), _in("declared", spec))


def test_integers_are_never_laid_over() -> None:
    assert not takes_regime(TensorSpec(name="i", shape=(4,), dtype="int64"))


def test_layout_is_kept() -> None:
    spec = FREE.model_copy(update={"layout": "transposed"})
    assert _in("mixed", spec).stride() == (1, 64)


def test_promises() -> None:
    assert -1.0 <= _in("negatives").min() < -0.9
    assert _in("heavy-tail").abs().max() > 50
    assert 90 < _in("large-scale").std() < 110
    assert 0 < _in("tiny-scale").abs().max() < 1e-3
    assert 0.8 < (_in("sparse") == 0).float().mean() < 0.95
    assert _in("constant").unique().numel() == 1
    assert bool((_in("small-integers") == _in("small-integers").round()).all())


def test_special_values_are_few_and_there() -> None:
    values = _in("special")
    assert 1 <= int((~torch.isfinite(values)).sum()) <= 4
    tiny = FREE.model_copy(update={"shape": (3,)})
    assert int((~torch.isfinite(_in("special", tiny))).sum()) == 1


@pytest.mark.parametrize("shape", [(), (0,), (1,), (8, 9)])
def test_a_lone_value_lies_in_its_own_argument_whatever_the_layout(shape: tuple[int, ...]) -> None:
    spec = FREE.model_copy(update={"shape": shape, "layout": "transposed" if len(shape) > 1 else FREE.layout})
    assert int(_in("nan in x", spec).isnan().sum()) == (0 not in shape)
    assert torch.equal(_in("nan in y", spec), _in("declared", spec))


def test_special_values_without_infinity_are_nan_alone_in_those_arguments() -> None:
    regime = without_infinity("special", ["x", "y"])
    values, other = _in(regime), _in(regime, FREE.model_copy(update={"name": "xy"}))
    assert int(values.isnan().sum()) >= 3
    assert not values.isinf().any()
    assert other.isinf().any()


def test_mixed_has_scales_far_apart_and_zeros() -> None:
    values = _in("mixed").abs()
    assert values.max() > 30
    assert bool((values == 0).any())
    assert values[values > 0].min() < 1e-3


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2)])
def test_odd_shapes(regime: str, shape: tuple[int, ...]) -> None:
    assert _in(regime, FREE.model_copy(update={"shape": shape})).shape == torch.Size(shape)
