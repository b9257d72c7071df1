"""Values drawn from specs: deterministic, of the declared structure and layout, and cheap."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.errors import TaskError
from kernelwright.records import Distribution, TensorSpec
from kernelwright.tasks.inputs._draw import copy_of, draw, generator, layout_of


def _draw(
    kind: str, shape: tuple[int, ...] = (64, 32), dtype: str = "float32", **fields: float
) -> torch.Tensor:
    distribution = Distribution.model_validate({"kind": kind, **fields})
    return draw(TensorSpec(name="x", shape=shape, dtype=dtype, distribution=distribution), generator(7, "x"))


def test_the_seed_and_the_labels_decide() -> None:
    spec = TensorSpec(name="x", shape=(8,), dtype="float32")
    first, again, other, label = (draw(spec, generator(*a)) for a in ((1, "a"), (1, "a"), (2, "a"), (1, "b")))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, label)


def test_normal_has_its_scale() -> None:
    values = _draw("normal", (100, 100), scale=3.0)
    assert values.std() == pytest.approx(3.0, rel=0.05)
    assert abs(values.mean()) < 0.2


def test_uniform_stays_inside() -> None:
    values = _draw("uniform", low=-2.0, high=-1.0)
    assert -2.0 <= values.min() < -1.9 < -1.1 < values.max() < -1.0


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "uint8"])
def test_integers_cover_their_range(dtype: str) -> None:
    values = _draw("integers", dtype=dtype, low=3, high=9)
    assert sorted(set(values.flatten().tolist())) == [3, 4, 5, 6, 7, 8]
    assert str(values.dtype) == f"torch.{dtype}"


def test_structures() -> None:
    assert torch.allclose(_draw("probabilities").sum(-1), torch.ones(64))
    assert bool((_draw("sorted").diff(dim=-1) >= 0).all())
    assert bool((_draw("sorted", dtype="int64", high=100).diff(dim=-1) >= 0).all())
    for offsets in (_draw("offsets", (3, 5), "int64", high=7), _draw("offsets", (2,), "int32", high=0)):
        assert bool((offsets.diff(dim=-1) >= 0).all())
        assert offsets[..., 0].eq(0).all() and offsets[..., -1].eq(7 if offsets.dim() == 2 else 0).all()
    assert torch.equal(_draw("permutation", (50,), "int64").sort().values, torch.arange(50))
    assert torch.equal(_draw("permutation", (3, 50), "int64").sort().values, torch.arange(50).expand(3, 50))
    lower = _draw("triangular", (16, 16))
    assert torch.equal(lower, lower.tril())
    assert bool((lower.diagonal() != 0).all())
    assert _draw("bernoulli", (100, 100), "bool", scale=0.25).float().mean() == pytest.approx(0.25, abs=0.03)
    assert bool((_draw("constant", low=2.5) == 2.5).all())


@pytest.mark.parametrize(
    ("layout", "strides"), [("contiguous", (32, 1)), ("transposed", (1, 64)), ("strided", (64, 2))]
)
def test_a_layout_changes_strides_and_no_values(layout: str, strides: tuple[int, ...]) -> None:
    spec = TensorSpec.model_validate({"name": "x", "shape": (64, 32), "dtype": "float32", "layout": layout})
    values = draw(spec, generator(1))
    assert values.stride() == strides
    assert torch.equal(values, draw(spec.model_copy(update={"layout": "contiguous"}), generator(1)))
    assert layout_of(values) == layout
    (copied,) = copy_of([values])
    assert isinstance(copied, torch.Tensor)
    assert copied.stride() == strides
    assert copied.data_ptr() != values.data_ptr()


def test_given_values_cannot_be_drawn() -> None:
    with pytest.raises(TaskError, match="only the task's own generator"):
        _draw("given")


def test_large_tensors_are_drawn_by_one_operation() -> None:
    seen = []

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    with Operators():
        draw(TensorSpec(name="x", shape=(1 << 16,), dtype="float32"), generator(1))
    assert seen == ["randn"]
