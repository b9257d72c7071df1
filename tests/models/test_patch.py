"""A patched model: its kernel where it was verified, the native model everywhere else, and all of it reversible."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from kernelwright.errors import InputError
from kernelwright.models import Patch, load_model
from kernelwright.models._snapshot import snapshots
from kernelwright.records import TensorSpec


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x, scale=1.0):
        return {"out": self.inner(x) * scale + self.shift, "scale": scale}


def kernel(x, weight, bias, shift):
    """Compute the same, and leave a mark that tells it from the native model: the sign of zero."""
    return torch.nn.functional.linear(x, weight, bias).relu() + shift + 0.0


WEIGHTS = ("inner.0.weight", "inner.0.bias", "shift")
X = TensorSpec(name="x", shape=(2, 4), dtype="float32")


@pytest.fixture(params=["python", pytest.param("compiled", marks=pytest.mark.needs("C++ compiler"))])
def patched(request):
    model = Model().eval()
    call = load_model(model, (torch.ones(2, 4),)).whole.call
    made = snapshots() if request.param == "compiled" else None
    patch = Patch(model, kernel, WEIGHTS, (X,), call, snapshots=made)
    with torch.no_grad():
        yield model, patch
    patch.remove()


def served(patch, *args, **kwargs):
    """Call the model and tell whether the kernel answered."""
    before = patch.calls
    patch.model(*args, **kwargs)
    return patch.calls > before


def test_the_kernel_answers_with_the_native_structure(patched):
    model, patch = patched
    x = torch.randn(2, 4)
    want = patch._native(x)
    assert not served(patch, x), "the first call is native and shows how a result is nested"
    assert served(patch, x)
    got = model(x)
    assert list(got) == ["out", "scale"] and got["scale"] == 1.0
    torch.testing.assert_close(got["out"], want["out"])


def test_outside_what_was_verified_the_native_model_answers(patched):
    model, patch = patched
    x = torch.randn(2, 4)
    model(x)
    assert served(patch, x)
    others = {
        "rows": torch.randn(3, 4), "dtype": torch.randn(2, 4).int(), "layout": torch.randn(4, 2).t(),
    }  # fmt: skip
    for name, other in others.items():
        if name != "dtype":
            assert not served(patch, other), name
    assert not served(patch, x, 2.0) and not served(patch, x=x)
    with torch.enable_grad():
        assert not served(patch, x)
    model.train()
    assert not served(patch, x)
    model.eval()
    handle = model.inner[1].register_forward_hook(lambda *_: None)
    assert not served(patch, x)
    handle.remove()
    assert served(patch, x)


def test_weights_are_read_in_every_call_and_a_replaced_part_is_native(patched):
    model, patch = patched
    x = torch.randn(2, 4)
    model(x)
    model.inner[0].weight = nn.Parameter(torch.zeros(4, 4))
    assert served(patch, x)
    torch.testing.assert_close(model(x)["out"], patch._native(x)["out"])
    state = {k: torch.randn_like(v) for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    torch.testing.assert_close(model(x)["out"], patch._native(x)["out"])
    model.inner[1] = nn.Sigmoid()
    assert not served(patch, x)
    torch.testing.assert_close(model(x)["out"], patch._native(x)["out"])


def test_the_state_is_the_same_and_the_patch_comes_off():
    model = Model().eval()
    before, modules = dict(model.state_dict()), list(dict(model.named_modules()))
    call = load_model(model, (torch.ones(2, 4),)).whole.call
    with Patch(model, kernel, WEIGHTS, (X,), call) as patch:
        after = model.state_dict()
        assert list(after) == list(before) and all(
            after[k].data_ptr() == v.data_ptr() for k, v in before.items()
        )
        assert list(dict(model.named_modules())) == modules
        with pytest.raises(InputError, match="replaced already"):
            Patch(model, kernel, WEIGHTS, (X,), call)
    assert "forward" not in vars(model)
    patch.remove()
    assert patch.calls == 0


def test_a_patch_that_does_not_fit_changes_nothing():
    model = Model().eval()
    with pytest.raises(InputError, match=r"no parameter or buffer 'inner\.7\.weight'"):
        Patch(model, kernel, ("inner.7.weight",), (X,), "")
    assert "forward" not in vars(model)


def test_a_kernel_that_declines_leaves_the_call_to_the_native_model_and_other_errors_are_seen():
    def declining(*_):
        raise NotImplementedError("Unsupported: not today")

    def broken(*_):
        raise RuntimeError("a bug")

    x = torch.randn(2, 4)
    for failing, said in ((declining, None), (broken, "a bug")):
        model = Model().eval()
        call = load_model(model, (x,)).whole.call
        with Patch(model, failing, WEIGHTS, (X,), call) as patch, torch.no_grad():
            model(x)
            if said is None:
                torch.testing.assert_close(model(x)["out"], patch._native(x)["out"])
                assert (patch.calls, patch.native_calls) == (0, 2)
            else:
                with pytest.raises(RuntimeError, match=said):
                    model(x)


def test_a_result_in_a_dataclass_comes_back_as_one():
    @dataclass
    class Result:
        out: torch.Tensor
        extra: tuple[torch.Tensor, None] | None = None

    class Named(nn.Module):
        def forward(self, x):
            return Result(x * 2, (x + 1, None))

    model = Named().eval()
    call = load_model(model, (torch.ones(2, 4),)).whole.call
    with Patch(model, lambda x: (x * 2, x + 1), (), (X,), call) as patch, torch.no_grad():
        model(torch.ones(2, 4))
        got = model(torch.full((2, 4), 3.0))
    assert patch.calls == 1 and isinstance(got, Result)
    assert got.out[0, 0] == 6 and got.extra[0][0, 0] == 4 and got.extra[1] is None
