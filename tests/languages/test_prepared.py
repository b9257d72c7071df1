"""Packed weights follow their originals, however these change, and are packed no oftener than that."""

import pytest
import torch

from kernelwright.languages.prepared import prepared

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
