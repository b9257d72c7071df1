"""A patched call that is as the last one is checked by compiled code alone; whatever has changed since is seen."""

import copy
import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.flop_counter import FlopCounterMode

from kernelwright.languages.prepared import Prepared
from kernelwright.models import Patch, load_model
from kernelwright.models._snapshot import snapshots
from kernelwright.records import TensorSpec

pytestmark = pytest.mark.needs("C++ compiler")
WEIGHTS = ("inner.0.weight", "inner.0.bias", "shift")
ROWS, WIDTH = 2, 64
X = TensorSpec(name="x", shape=(ROWS, WIDTH), dtype="float32")
MARK = 1000.0
"""What the kernel adds to the right answer, so that a test sees who answered."""


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout())
        self.register_buffer("shift", torch.ones(WIDTH))
        self.table = torch.full((WIDTH,), 2.0)
        self.tables = [torch.ones(WIDTH)]

    def forward(self, x, scale=1.0):
        return self.inner(x) * scale + self.shift + self.table + self.tables[0]


def prepare(weights):
    return {name: value.clone() for name, value in weights.items()}


def run(x, packed):
    if float(x[0, 0]) == 7.0:
        raise NotImplementedError("Unsupported: sevens")
    weight, bias, shift = packed.values()
    return nn.functional.linear(x, weight, bias).relu() + shift + 3.0 + MARK


@pytest.fixture
def patched():
    """A patched model whose next call is compared with a snapshot, and an input."""
    made = snapshots()
    assert made is not None
    model, x = Model().eval(), torch.randn(ROWS, WIDTH)
    with (
        torch.no_grad(),
        Patch(
            model,
            Prepared(run, prepare, WEIGHTS),
            WEIGHTS,
            (X,),
            load_model(model, (x,)).whole.call,
            snapshots=made,
        ) as patch,
    ):
        for _ in range(2):
            model(x)
        assert by_snapshot(patch, x)
        yield patch, x


def by_snapshot(patch, *args, **kwargs):
    """Call the model and tell whether nothing but the snapshot was asked."""
    asked = []
    patch._checked = lambda args, kwargs: asked.append(args) or Patch._checked(patch, args, kwargs)
    patch.model(*args, **kwargs)
    del patch._checked
    return not asked


def is_right(patch, *args, **kwargs):
    """Call the model, compare the answer with the native one, and tell whether the kernel gave it."""
    before = patch.calls
    got, want = patch.model(*args, **kwargs), patch._native(*args, **kwargs)
    served = patch.calls > before
    torch.testing.assert_close(got - MARK if served else got, want, rtol=1e-4, atol=1e-3)
    return served


def of(model):
    return model.inner[0].weight


def step(model, **form):
    """Step an optimizer that changes one row, far from the bytes that are read in every call."""
    weight = of(model)
    weight.grad = torch.zeros_like(weight)
    weight.grad[0] = 1.0
    torch.optim.SGD([weight], lr=1.0, **form).step()


def swap(model):
    other = nn.Parameter(torch.randn(WIDTH, WIDTH))
    torch.utils.swap_tensors(model.inner[0].weight, other)


WRITES: dict[str, Callable[[nn.Module], object]] = {
    "in place": lambda m: of(m).mul_(2),
    "detached": lambda m: of(m).detach().fill_(0.25),
    "a row": lambda m: of(m)[0].zero_(),
    "one element": lambda m: of(m)[3, 5].add_(1),
    "foreach": lambda m: torch._foreach_mul_([of(m)], 2.0),
    "through data": lambda m: of(m).data.copy_(torch.randn(WIDTH, WIDTH)),
    "numpy": lambda m: of(m).detach().numpy().fill(0.5),
    "storage": lambda m: of(m).untyped_storage().fill_(1),
    "other data": lambda m: setattr(of(m), "data", torch.randn(WIDTH, WIDTH)),
    "other strides": lambda m: setattr(of(m), "data", of(m).data.clone().t()),
    "strides of the same memory": lambda m: setattr(of(m), "data", of(m).data.t()),
    "another parameter": lambda m: setattr(m.inner[0], "weight", nn.Parameter(torch.randn(WIDTH, WIDTH))),
    "swapped": swap,
    "a buffer": lambda m: m.shift.add_(1),
    "another buffer": lambda m: setattr(m, "shift", torch.randn(WIDTH)),
    "loaded": lambda m: m.load_state_dict({k: torch.randn_like(v) for k, v in m.state_dict().items()}),
    "assigned": lambda m: m.load_state_dict(
        {k: torch.randn_like(v) for k, v in m.state_dict().items()}, assign=True
    ),
    "fused step": lambda m: step(m, fused=True),
    "foreach step": lambda m: step(m, foreach=True),
    "step": lambda m: step(m, foreach=False),
    "other dtype and back": lambda m: (m.double(), of(m).mul_(2), m.float()),
    "shared": lambda m: setattr(m.inner[0], "bias", nn.Parameter(m.shift)),
    "memory let go": lambda m: of(m).untyped_storage().resize_(4 * WIDTH * WIDTH + 4096),
}


@pytest.mark.parametrize("way", WRITES)
def test_every_way_of_changing_a_weight_is_followed(patched, way):
    patch, x = patched
    WRITES[way](patch.model)
    for _ in range(3):
        is_right(patch, x)
    if patch.model.inner[0].weight.is_contiguous():
        assert by_snapshot(patch, x), "what is packed again is remembered again"


def test_a_write_that_cannot_be_seen_is_followed_when_asked(patched):
    patch, x = patched
    of(patch.model).data[0].zero_()
    patch._kernel.forget()
    assert is_right(patch, x)


GUARDS: dict[str, Callable[[nn.Module], object]] = {
    "training": lambda m: m.train(),
    "training of a part": lambda m: m.inner[2].train(),
    "a hook": lambda m: m.inner[1].register_forward_hook(lambda *_: None),
    "a hook before": lambda m: m.inner[1].register_forward_pre_hook(lambda *_: None),
    "a part replaced": lambda m: setattr(m.inner, "1", nn.Sigmoid()),
    "a part gone": lambda m: m.inner.__delitem__(1),
    "a forward of its own": lambda m: setattr(m.inner[1], "forward", torch.sigmoid),
    "an attribute": lambda m: setattr(m, "table", torch.zeros(WIDTH)),
    "an attribute written": lambda m: m.table.add_(1),
    "in a list": lambda m: m.tables.__setitem__(0, torch.zeros(WIDTH)),
    "a list emptied": lambda m: m.__setattr__("tables", [torch.zeros(WIDTH)]),
    "a parametrization": lambda m: parametrizations.weight_norm(m.inner[0]),
    "a weight gone": lambda m: m.inner[0].register_parameter("bias", None),
}


@pytest.mark.parametrize("change", GUARDS)
def test_a_model_that_is_not_as_it_was_judged_is_native(patched, change):
    patch, x = patched
    GUARDS[change](patch.model)
    torch.manual_seed(0)
    before = patch.calls
    patch.model(x)
    assert patch.calls == before


def test_a_hook_for_all_modules_is_called(patched):
    patch, x = patched
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda m, *_: seen.append(type(m)))
    is_right(patch, x)
    handle.remove()
    assert nn.Linear in seen and is_right(patch, x)


CALLS = {
    "rows": ((torch.ones(3, WIDTH),), {}),
    "dtype": ((torch.ones(ROWS, WIDTH).double().float().to(torch.bfloat16),), {}),
    "layout": ((torch.ones(WIDTH, ROWS).t(),), {}),
    "a number": ((torch.ones(ROWS, WIDTH), 2.0), {}),
    "a number by name": ((torch.ones(ROWS, WIDTH),), {"scale": 2.0}),
    "a subclass": ((nn.Parameter(torch.ones(ROWS, WIDTH), requires_grad=False),), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_calls_are_native_and_the_snapshot_stays(patched, name):
    patch, x = patched
    args, kwargs = CALLS[name]
    before = patch.calls
    if name == "dtype":
        with pytest.raises(RuntimeError):
            patch.model(*args)
    else:
        patch.model(*args, **kwargs)
    assert patch.calls == before and by_snapshot(patch, x)


def test_other_modes_are_checked_anew(patched):
    patch, x = patched
    for mode in (torch.enable_grad(), torch.autocast("cpu", torch.bfloat16)):
        with mode:
            before = patch.calls
            patch.model(x)
            assert patch.calls == before
    torch.testing.assert_close(torch.func.vmap(patch.model)(x[None])[0], patch._native(x))
    with FlopCounterMode(display=False):
        assert not by_snapshot(patch, x)
    assert is_right(patch, x) and by_snapshot(patch, x)
    with torch.inference_mode():
        assert is_right(patch, torch.randn(ROWS, WIDTH))
    for p in patch.model.parameters():
        p.requires_grad_(False)
    with torch.enable_grad():
        assert is_right(patch, x) and by_snapshot(patch, x)
        of(patch.model).requires_grad_()
        assert not is_right(patch, x)
        of(patch.model).requires_grad_(False)
        assert is_right(patch, x) and not is_right(patch, x.clone().requires_grad_())


def test_a_kernel_that_declines_is_native_and_its_errors_are_seen(patched):
    patch, x = patched
    sevens = torch.full((ROWS, WIDTH), 7.0)
    assert not is_right(patch, sevens) and by_snapshot(patch, x)
    with pytest.raises(ZeroDivisionError), pytest.MonkeyPatch.context() as broken:
        broken.setattr(nn.functional, "linear", lambda *_: 1 / 0)
        patch.model(x)


def test_a_weight_that_counts_no_writes_has_no_snapshot(patched):
    patch, x = patched
    with torch.inference_mode():
        patch.model.shift = torch.zeros(WIDTH)
        for _ in range(3):
            assert is_right(patch, x)
        patch.model.shift.add_(1)
        assert is_right(patch, x) and not by_snapshot(patch, x)


def test_a_copy_of_a_patched_model_follows_its_own_weights_and_mode(patched):
    patch, x = patched
    other = copy.deepcopy(patch.model)
    of(other).zero_()
    assert is_right(patch, x)
    its = vars(other)["forward"].__self__
    for _ in range(2):
        other(x)
    assert its is not patch and is_right(its, x) and by_snapshot(its, x)
    other.train()
    before = its.calls
    other(x)
    assert its.calls == before and by_snapshot(patch, x)


def test_a_patched_model_can_be_collected():
    model, x = Model().eval(), torch.randn(ROWS, WIDTH)
    call = load_model(model, (x,)).whole.call
    patch = Patch(model, Prepared(run, prepare, WEIGHTS), WEIGHTS, (X,), call, snapshots=snapshots())
    with torch.no_grad():
        for _ in range(3):
            model(x)
    gone = weakref.ref(model)
    del model, patch
    gc.collect()
    assert gone() is None


def test_without_a_compiler_python_checks(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_CXX", "no-such-compiler")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    assert snapshots.__wrapped__() is None
