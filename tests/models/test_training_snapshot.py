"""A training call that is as the last one is checked by compiled code alone, whatever steps of an optimizer change."""

import pytest
import torch
from torch import nn

from kernelwright.models import TrainingPatch, load_model
from kernelwright.models._snapshot import snapshots
from kernelwright.records import TensorSpec

pytestmark = pytest.mark.needs("C++ compiler")
X = TensorSpec(name="x", shape=(2, 8), dtype="float32")
MARK = 100.0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x).pow(2).sum()


def step(x, weight, bias):
    y = nn.functional.linear(x, weight, bias)
    return y.pow(2).sum() + MARK, 2 * y.t() @ x, 2 * y.sum(0)


@pytest.fixture
def patched():
    model, x = Model().train(), torch.randn(2, 8)
    call = load_model(model, (x,)).whole.call
    model.train()
    names = ("inner.weight", "inner.bias")
    with TrainingPatch(model, step, names, (X,), call, snapshots=snapshots(), trained=names) as patch:
        for _ in range(2):
            model(x)
        assert by_snapshot(patch, x)
        yield patch, x


def by_snapshot(patch, x):
    """Call the model and tell whether nothing but the snapshot was asked."""
    asked = []
    patch._checked = lambda args, kwargs: asked.append(args) or TrainingPatch._checked(patch, args, kwargs)
    patch.model(x)
    del patch._checked
    return not asked


def is_right(patch, x):
    """Take a gradient, compare it and the loss with the native ones, and tell whether the kernel gave them."""
    weights = list(patch.model.parameters())
    before = patch.calls
    loss, own = patch.model(x), patch._native(x)
    served = patch.calls > before
    torch.testing.assert_close(loss - MARK if served else loss, own)
    if loss.requires_grad:
        wanted = [w for w in weights if w.requires_grad]
        for got, want in zip(
            torch.autograd.grad(loss, wanted), torch.autograd.grad(own, wanted), strict=True
        ):
            torch.testing.assert_close(got, want)
    return served


@pytest.mark.parametrize("form", [{"foreach": True}, {"fused": True}])
def test_steps_are_followed_without_another_check(patched, form):
    patch, x = patched
    optimizer = torch.optim.SGD(patch.model.parameters(), lr=1e-3, **form)
    for _ in range(3):
        optimizer.zero_grad()
        patch.model(x).backward()
        optimizer.step()
        assert by_snapshot(patch, x) and is_right(patch, x)
    patch.model.inner.weight.data[0, 0] = 5.0
    assert by_snapshot(patch, x) and is_right(patch, x), "no value is held"


def test_what_was_not_judged_is_native(patched):
    patch, x = patched
    bias = patch.model.inner.bias
    for change, back in (
        (lambda: bias.requires_grad_(False), lambda: bias.requires_grad_()),
        (patch.model.eval, patch.model.train),
        (patch.model.inner.eval, patch.model.inner.train),
    ):
        change()
        assert not is_right(patch, x)
        back()
        assert is_right(patch, x) and by_snapshot(patch, x)
    with torch.no_grad():
        assert not is_right(patch, x)
    with torch.autocast("cpu", torch.bfloat16):
        before = patch.calls
        patch.model(x)
        assert patch.calls == before
    assert not is_right(patch, torch.randn(3, 8)) and not is_right(patch, x.clone().requires_grad_())
    assert by_snapshot(patch, torch.randn(2, 8))
    patch.model.inner.weight = nn.Parameter(torch.randn(8, 8))
    assert is_right(patch, x) and by_snapshot(patch, x)
    patch.model.inner.weight.data = torch.randn(8, 8).t()
    assert not is_right(patch, x)
