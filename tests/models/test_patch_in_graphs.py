"""A patched model in graphs of torch.compile, under export, and under transforms: served or native, never wrong."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from kernelwright.models import Patch, load_model
from kernelwright.records import TensorSpec

X = TensorSpec(name="x", shape=(2, 4), dtype="float32")
MARK = 100.0


@dataclass
class Result:
    out: torch.Tensor
    scale: float


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.scale = nn.Linear(4, 4), 2.0

    def forward(self, x):
        return Result(self.inner(x) * 2.0, self.scale)


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).out


def kernel(x, weight, bias):
    if float(x.flatten()[0]) == 7.0:
        raise NotImplementedError("Unsupported: sevens")
    return (nn.functional.linear(x, weight, bias) * 2.0 + MARK).t().contiguous().t()


@pytest.fixture
def patched():
    torch._dynamo.reset()
    model = Model().eval()
    x = torch.randn(2, 4)
    call = load_model(model, (x,)).whole.call
    with torch.no_grad(), Patch(model, kernel, ("inner.weight", "inner.bias"), (X,), call) as patch:
        model(x)
        yield patch, x
    torch._dynamo.reset()


def away(call, patch, x):
    """Return by how much an answer differs from the native one: the mark, where the kernel answered."""
    return round(float((call(x) - patch._native(x).out).mean()), 3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forward_gradients_are_the_native_models(patched):
    patch, x = patched
    assert away(lambda x: patch.model(x).out, patch, x) == MARK
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(patch.model(dual).out).tangent
        assert tangent is not None
        torch.testing.assert_close(tangent, 2 * patch.model.inner.weight.sum(1).expand(2, 4))


@pytest.mark.long
def test_one_graph_holds_the_kernel_and_checks_every_call(patched):
    patch, x = patched
    model = patch.model
    compiled = torch.compile(lambda x: model(x.relu()).out + 0.0, fullgraph=True, backend="aot_eager")

    def off(x):
        return round(float((compiled(x) - patch._native(x.relu()).out).mean()), 3)

    assert off(x) == MARK and off(torch.randn(2, 4)) == MARK
    assert off(torch.full((2, 4), 7.0)) == 0, "the kernel declines"
    assert off(torch.randn(3, 4)) == 0, "other sizes"
    model.inner.weight.mul_(2)
    assert off(x) == MARK
    model.inner.weight = nn.Parameter(torch.randn(4, 4))
    assert off(x) == MARK
    before = patch.calls
    model.inner.register_forward_hook(lambda *_: None)
    assert off(x) == 0 and patch.calls == before, "a hook on a part"
    model.inner._forward_hooks.clear()
    with torch.enable_grad():
        found = compiled(x)
        assert (
            found.requires_grad
            and round(float((found.detach() - patch._native(x.relu()).out.detach()).mean()), 3) == 0
        )
    patch.remove()
    assert off(x) == 0


@pytest.mark.long
@pytest.mark.parametrize("way", ["in place", "around it"])
def test_a_model_that_is_compiled_before_its_first_call_is_served_from_the_next(way):
    model, x = Model().eval(), torch.randn(2, 4)
    call = load_model(model, (x,)).whole.call
    with torch.no_grad(), Patch(model, kernel, ("inner.weight", "inner.bias"), (X,), call) as patch:
        compiled = torch.compile(lambda x: model(x), backend="aot_eager") if way == "around it" else model
        if way == "in place":
            model.compile(backend="aot_eager")
        other = torch.randn(3, 4)
        torch.testing.assert_close(compiled(other).out, patch._native(other).out)
        for wanted in (0, MARK, MARK):
            assert away(lambda x: compiled(x).out, patch, x) == wanted
    torch._dynamo.reset()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_dynamic_sizes_weights_that_the_graph_changes_and_export(patched):
    patch, x = patched
    model = patch.model
    compiled = torch.compile(lambda x: model(x).out * 1.0, fullgraph=True, dynamic=True)
    for rows, wanted in ((3, 0), (2, MARK), (5, 0), (2, MARK)):
        assert away(compiled, patch, torch.randn(rows, 4)) == wanted

    @torch.compile(fullgraph=True)
    def changes(x):
        first = model(x).out
        model.inner.bias.add_(1)
        return first, model(x).out

    first, second = changes(x)
    torch.testing.assert_close(
        second, first + 2.0, msg="the operator is given the weight that the graph changed"
    )
    assert round(float((second - patch._native(x).out).mean()), 3) == MARK
    for strict in (False, True):
        held = torch.export.export(Around(model), (x,), strict=strict).module()
        torch.testing.assert_close(held(x), patch._native(x).out, msg="an archive holds the native model")
    torch.testing.assert_close(
        torch.compile(torch.vmap(lambda x: model(x).out))(x[None])[0], patch._native(x).out
    )
