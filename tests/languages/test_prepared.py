"""Packed weights follow their originals, however these change, and are packed no oftener than that."""

import copy
import pickle
import sys

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_post_hooks

from kernelwright.languages.prepared import PASSED_ON, Prepared, prepared

packings = []


def prepare(weights):
    packings.append(sorted(weights))
    return weights["w"].t().contiguous()


def run(x, packed):
    return x @ packed


class Packing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2, bias=False)
        self.packings = 0

    def prepare(self):
        self.packings += 1
        self.register_buffer("packed", self.linear.weight.t().contiguous(), persistent=False)

    def forward(self, x):
        return x @ self.packed


@pytest.fixture(autouse=True)
def none_yet():
    packings.clear()


def test_a_function_is_given_what_prepare_made_of_the_weights_by_name():
    kernel, w, x = prepared(run, ["w"]), torch.randn(2, 3), torch.randn(4, 3)
    for _ in range(3):
        torch.testing.assert_close(kernel(x, w), x @ w.t())
    assert packings == [["w"]]


@pytest.mark.parametrize(
    "written",
    [
        lambda w: w.mul_(2),
        lambda w: w.detach().fill_(7),
        lambda w: w[0].zero_(),
        lambda w: setattr(w, "data", torch.randn(2, 3)),
        lambda w: w.data.copy_(torch.randn(2, 3)),
        lambda w: w.numpy().fill(5),
        lambda w: w.untyped_storage().fill_(1),
        lambda w: torch._foreach_mul_([w], 2.0),
    ],
)
def test_weights_written_in_place_are_packed_again(written):
    kernel, w, x = prepared(run, ["w"]), torch.randn(2, 3), torch.randn(4, 3)
    kernel(x, w)
    written(w)
    torch.testing.assert_close(kernel(x, w), x @ w.t())
    assert len(packings) == 2


def test_other_weights_are_packed_even_where_they_lie_at_the_old_address():
    kernel, x = prepared(run, ["w"]), torch.randn(4, 3)
    for _ in range(5):
        w = torch.randn(2, 3)
        torch.testing.assert_close(kernel(x, w), x @ w.t())
        del w
    assert len(packings) == 5


def test_weights_that_count_no_writes_are_packed_every_time():
    with torch.inference_mode():
        w = torch.randn(2, 3)
        kernel, x = prepared(run, ["w"]), torch.randn(4, 3)
        kernel(x, w)
        w.mul_(2)
        torch.testing.assert_close(kernel(x, w), x @ w.t())


def test_a_module_packs_after_loading_writing_and_replacing():
    module, x = Packing(), torch.randn(4, 3)
    kernel = prepared(module)
    changes = (
        lambda: module.load_state_dict({"linear.weight": torch.randn(2, 3)}),
        lambda: module.load_state_dict({"linear.weight": torch.randn(2, 3)}, assign=True),
        lambda: module.linear.weight.mul_(2),
        lambda: setattr(module.linear, "weight", torch.nn.Parameter(torch.randn(2, 3))),
    )
    with torch.no_grad():
        for change in changes:
            change()
            for _ in range(2):
                torch.testing.assert_close(kernel(x), x @ module.linear.weight.t())
    assert module.packings == len(changes)


def test_only_the_documented_form_is_a_declaration():
    def other(x, w):
        return x @ w

    class Own(torch.nn.Linear):
        def prepare(self, batch):
            return batch

    assert prepared(Own(3, 2)) is None
    assert prepared(torch.nn.Linear(3, 2)) is None
    assert prepared(print) is None
    with pytest.raises(RuntimeError, match="no parameters"):
        prepared(other)(torch.ones(1))


def test_weights_under_other_strides_are_packed_again():
    kernel, w, x = prepared(run, ["w"]), torch.randn(3, 3), torch.randn(4, 3)
    kernel(x, w)
    w.data = w.data.t()
    torch.testing.assert_close(kernel(x, w), x @ w.t())


@pytest.mark.parametrize("form", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
def test_a_step_of_an_optimizer_is_followed_where_it_changes_no_byte_that_is_read(form):
    kernel, x = prepared(run, ["w"]), torch.randn(4, 64)
    w, other = (torch.nn.Parameter(torch.randn(64, 64)) for _ in range(2))
    with torch.no_grad():
        kernel(x, w)
    for p in (w, other):
        p.grad = torch.zeros(64, 64)
        p.grad[0] = 1.0
    torch.optim.SGD([other], lr=1.0, fused=True).step()
    with torch.no_grad():
        kernel(x, w)
    assert len(packings) == 1, "the step of another model's optimizer packs nothing"
    torch.optim.SGD([w], lr=1.0, **form).step()
    with torch.no_grad():
        torch.testing.assert_close(kernel(x, w), x @ w.t())


def test_writes_that_cannot_be_seen_are_followed_when_asked():
    kernel, w, x = prepared(run, ["w"]), torch.randn(64, 64), torch.randn(4, 64)
    kernel(x, w)
    w.data[0].zero_()
    kernel.forget()
    torch.testing.assert_close(kernel(x, w), x @ w.t())


def test_what_is_dropped_leaves_no_hook_behind():
    hooks = _global_optimizer_post_hooks
    before = len(hooks)
    kernel = prepared(run, ["w"])
    assert len(hooks) == before + 1
    del kernel
    assert len(hooks) == before


def test_a_copy_packs_for_itself():
    kernel, w, x = prepared(run, ["w"]), torch.randn(2, 3), torch.randn(4, 3)
    kernel(x, w)
    for other in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        torch.testing.assert_close(other(x, 2 * w), 2 * x @ w.t())
    torch.testing.assert_close(kernel(x, w), x @ w.t())


def test_weights_whose_packing_failed_are_packed_again(monkeypatch):
    kernel, w, x = prepared(run, ["w"]), torch.randn(2, 3), torch.randn(4, 3)
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "_prepare", lambda _: 1 / 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                kernel(x, w)
    torch.testing.assert_close(kernel(x, w), x @ w.t())


def counting(x, packed):
    w, count = packed
    count.add_(1)
    return x @ w


def passing(weights):
    packings.append(sorted(weights))
    return weights["w"].t().contiguous(), weights["count"]


def test_weights_that_the_function_changes_itself_pack_nothing_again(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], PASSED_ON, (1,), raising=False)
    kernel, w, x = Prepared(counting, passing, ["w", "count"]), torch.randn(2, 3), torch.randn(4, 3)
    count, other = torch.zeros(()), torch.zeros(())
    for _ in range(3):
        torch.testing.assert_close(kernel(x, w, count), x @ w.t())
    assert count == 3 and len(packings) == 1
    w.mul_(2)
    torch.testing.assert_close(kernel(x, w, count), x @ w.t())
    kernel(x, w, other)
    assert (count, other) == (4, 1) and len(packings) == 3
    again = pickle.loads(pickle.dumps(kernel))
    again(x, w, other)
    again(x, w, other)
    assert len(packings) == 4
