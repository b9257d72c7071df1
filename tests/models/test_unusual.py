"""Models of unusual kinds, and faults while they are patched: each works, or is native or refused in a sentence."""

import dataclasses

import pytest
import torch
from tests.models.conftest import written
from torch import nn

from kernelwright.errors import TaskError
from kernelwright.models import Patch, SizedPatch, capture_model, load_model, plan
from kernelwright.models import _install as installing
from kernelwright.models import _patch as patching
from kernelwright.models import _sized_patch as sized
from kernelwright.records import TensorSpec

X = TensorSpec(name="x", shape=(2, 4), dtype="float32")
WEIGHTS = ("inner.weight", "inner.bias")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x)


def kernel(x, weight, bias):
    return (nn.functional.linear(x, weight, bias),)


def patched(model, given=kernel, weights=WEIGHTS):
    x = torch.randn(2, 4)
    call = load_model(model, (x,)).whole.call
    return Patch(model, given, weights, (X,), call), x


def test_what_has_no_graph_or_hides_tensors_is_refused():
    @dataclasses.dataclass
    class Given:
        parts: list[torch.Tensor]

    class Takes(nn.Module):
        def forward(self, given):
            return given.parts[0] * 2

    with pytest.raises(
        TaskError, match=r"an input of takes is a Given, whose tensors .*register_dataclass\(Given\)"
    ):
        load_model(Takes(), (Given([torch.ones(2)]),))
    torch.export.register_dataclass(Given)
    assert len(load_model(Takes(), (Given([torch.ones(2)]),)).whole.tensors) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_script_is_refused():
    with pytest.raises(TaskError, match="is TorchScript, of which there is no graph; pass the module"):
        load_model(torch.jit.script(nn.ReLU()), (torch.ones(2),))


def test_sparse_tensors_are_named():
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("s", torch.eye(4).to_sparse())

        def forward(self, x):
            return torch.sparse.mm(self.s, x)

    captured = capture_model(load_model(Sparse(), (torch.ones(4, 2),)))
    assert captured.breaks == ("'s' is a sparse_coo tensor, which no program takes",) and not captured.pieces
    made = plan(Sparse(), inputs=(torch.ones(4, 2),))
    assert made.breaks == captured.breaks and not made.regions


def test_a_compiled_model_is_taken_out(tmp_path):
    made = "torch.compile(torch.nn.Linear(4, 4), backend='eager'), (torch.randn(2, 4),)"
    loaded = load_model(
        written(tmp_path, "compiled.py", f"import torch\n\n\ndef build():\n    return {made}\n")
    )
    assert type(loaded.module) is nn.Linear and any(
        "taken out of torch.compile" in note for note in loaded.notes
    )
    assert "return module._orig_mod, inputs" in loaded.text


def test_hooks_of_the_model_are_not_run_twice():
    model = Model().eval()
    model.register_forward_hook(lambda _, __, out: out * 3)
    loaded = load_model(model, (torch.randn(2, 4),))
    assert loaded.notes == ("the model has forward hooks: a patched model stays native while they are there",)
    patch, x = patched(model, lambda *given: kernel(*given)[0] * 3)
    with patch, torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(model(x), model.inner(x) * 3)
        assert patch.calls == 0 and patch.reason == "the model itself has forward hooks"


def test_a_call_that_sets_attributes_is_native():
    class Counts(Model):
        count, kept = 0, None

        def forward(self, x):
            self.count, self.kept = self.count + 1, x
            return self.inner(x)

    class Caches(Model):
        table = None

        def forward(self, x):
            if self.table is None:
                self.table = torch.ones(4)
            return self.inner(x) * self.table

    with torch.no_grad():
        patch, x = patched(Counts().eval())
        before = patch.model.count
        for _ in range(3):
            patch.model(x)
        assert (
            patch.calls == 0
            and patch.model.count == before + 3
            and "sets the attribute 'count'" in patch.reason
        )
        patch, x = patched(Caches().eval())
        for _ in range(4):
            patch.model(x)
        assert patch.calls >= 1, "what is set once is set"


def test_a_frozen_dataclass_with_fields_that_its_class_does_not_take():
    @dataclasses.dataclass(frozen=True)
    class Result:
        out: torch.Tensor
        count: int = dataclasses.field(init=False, default=3)

    class Frozen(Model):
        def forward(self, x):
            return Result(self.inner(x))

    patch, x = patched(Frozen().eval())
    with patch, torch.no_grad():
        for _ in range(2):
            found = patch.model(x)
        assert patch.calls == 1 and isinstance(found, Result) and found.count == 3
        torch.testing.assert_close(found.out, patch.model.inner(x))


def test_one_tensor_comes_back_as_one():
    patch, x = patched(Model().eval())
    with patch, torch.no_grad():
        patch.model(x)
        torch.testing.assert_close(patch.model(x), patch.model.inner(x))
        assert patch.calls == 1


class Fault(BaseException):
    """What no code catches, as when a process is asked to end."""


STEPS = {
    "weights": (patching, "_place"), "what is outside": (patching, "Outside"), "specs": (patching, "getattr"),
    "another size": (sized, "vars"),
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_step_leaves_the_model_as_it_was(monkeypatch, step):
    model, x = Model().eval(), torch.randn(2, 4)
    before = dict(vars(model))

    def fails(*_):
        raise Fault(step)

    module, name = STEPS[step]
    call = load_model(model, (x,)).whole.call
    monkeypatch.setattr(module, name, fails, raising=False)
    with pytest.raises(Fault):
        SizedPatch(model, [lambda: Patch(model, kernel, WEIGHTS, (X,), call)])
    assert vars(model) == before


def test_a_fault_in_the_second_of_several_sizes_takes_the_first_off():
    model, x = Model().eval(), torch.randn(2, 4)
    call = load_model(model, (x,)).whole.call

    def fails():
        raise Fault

    with pytest.raises(Fault):
        SizedPatch(model, [lambda: Patch(model, kernel, WEIGHTS, (X,), call), fails])
    assert "forward" not in vars(model)


@pytest.mark.parametrize("place", ["capture", "native", "kernel", "nested"])
def test_a_fault_in_a_call_leaves_the_patch_whole(monkeypatch, place):
    patch, x = patched(Model().eval())
    wanted = patch.model.inner(x)

    def fails(*_, **__):
        raise Fault(place)

    patch._graph = "judged" if place == "capture" else ""
    name = {"capture": "_captured", "native": "_native", "kernel": "_kernel", "nested": "_nested"}[place]
    with torch.no_grad():
        if place in {"kernel", "nested"}:
            patch.model(x)
        with monkeypatch.context() as planted, pytest.raises(Fault):
            planted.setattr(patch, name, fails)
            patch.model(x)
        assert vars(patch.model)["forward"] == patch.answer
        torch.testing.assert_close(patch.model(x), wanted)
        patch.remove()
        assert "forward" not in vars(patch.model)


@pytest.mark.parametrize(
    "step", ["load_program", "_check_weights", "snapshots", "accepted_of", "model_result"]
)
@pytest.mark.long
def test_a_fault_while_a_result_is_loaded_leaves_the_model_as_it_was(accepted, monkeypatch, step):
    store, run, model = accepted
    before = dict(vars(model))

    def fails(*_):
        raise Fault(step)

    monkeypatch.setattr(installing, step, fails)
    with pytest.raises(Fault):
        installing.patch(model, run, store=store)
    assert vars(model) == before


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    from tests.models.planted import accept_small

    store, run, loaded = accept_small(tmp_path_factory.mktemp("accepted"))
    return store, run, loaded.module
