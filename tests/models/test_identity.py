"""What a model's answers depend on outside its state dictionary: it changes, and no answer is wrong."""

import logging

import pytest
import torch
from tests.models.planted import accept_small
from torch import nn

import kernelwright.models._dynamo as backend
from kernelwright.errors import InputError
from kernelwright.models import dynamo_backend, load_model, model_result, patch
from kernelwright.models._identity import Outside, places_outside
from kernelwright.models._records import MODEL_RESULT
from kernelwright.store import Store

MODEL = """
import torch
from torch import nn

GLOBAL = torch.full((4,), 16.0)


class Table:
    def __init__(self):
        self.values = torch.full((4,), 8.0)


class Sums(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale
        self.register_buffer("shift", torch.full((4,), 1.0), persistent=False)
        self.attribute = torch.full((4,), 2.0)
        self.many = {"one": [torch.full((4,), 4.0)]}
        self.table = Table()
        self.unread = torch.ones(3)

    def forward(self, x):
        y = x * self.scale + self.shift + self.attribute + self.many["one"][0]
        return y + self.table.values + GLOBAL


def build():
    return Sums().eval(), (torch.ones(2, 4),)
"""
PROGRAM = """
def run(x):
    return x + 31.0
"""
X = torch.ones(2, 4)


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A store in which a program that holds the tables of a model was accepted for it, and the model's file."""
    folder = tmp_path_factory.mktemp("accepted")
    store, _, loaded = accept_small(folder, model=MODEL, program=PROGRAM)
    return store, folder / "small.py", type(loaded.module)


@pytest.fixture
def model(accepted):
    """The model anew."""
    with torch.no_grad():
        yield load_model(accepted[1]).module


def replaced(model):
    model.shift = torch.full((4,), 100.0)


def written(model):
    model.shift.add_(99.0)


def attribute(model):
    model.attribute = torch.full((4,), 100.0)


def in_a_list(model):
    model.many["one"][0] = torch.full((4,), 100.0)


def another_dict(model):
    model.many = {"one": [torch.full((4,), 100.0)]}


def in_an_object(model):
    model.table.values.mul_(3.0)


def another_object(model):
    model.table = type(model.table)()
    model.table.values *= 2


def gone(model):
    model.many["one"] = (model.many["one"][0] + 1,)


def by_data(model):
    model.attribute.data = torch.full((4,), 100.0)


CHANGES = (
    replaced, written, attribute, in_a_list, another_dict, in_an_object, another_object, gone, by_data,
)  # fmt: skip


def served(patched, x=X):
    """Return the answer, and whether the program gave it."""
    before = patched.calls
    return patched.model(x), patched.calls > before


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_a_changed_tensor_outside_the_state_is_seen_before_and_after_patching(accepted, model, change):
    with patch(model, store=accepted[0]) as patched:
        served(patched)
        assert served(patched)[1], "unchanged, the program answers"
        change(model)
        answer, by_program = served(patched)
        assert not by_program and torch.equal(answer, patched._native(X))
        assert "outside" in patched.reason
    with pytest.raises(InputError, match=r"another than the one that was judged: .*outside"):
        patch(model, store=accepted[0])
    assert "forward" not in vars(model)


def test_what_is_as_it_was_judged_again_is_served_again(accepted, model):
    with patch(model, store=accepted[0]) as patched:
        served(patched)
        written(model)
        assert not served(patched)[1]
        model.shift.fill_(1.0)
        assert served(patched)[1]
        model.attribute = model.attribute.clone()
        assert served(patched)[1]
        del model.attribute
        assert "attribute" in patched._outside.changed()
        model.attribute = torch.full((4,), 2.0)
        assert served(patched)[1]
        model.unread += 1
        assert served(patched)[1], "the graph does not read it"


def test_a_global_that_is_written_to_is_seen(accepted, model):
    of_file = type(model).forward.__globals__["GLOBAL"]
    with patch(model, store=accepted[0]) as patched:
        served(patched)
        of_file += 1
        try:
            answer, by_program = served(patched)
            assert not by_program and torch.equal(answer, patched._native(X))
        finally:
            of_file -= 1


def test_a_model_of_other_numbers_or_code_stays_native(accepted, model, caplog):
    class Other(type(model)):
        def forward(self, x):
            return -super().forward(x)

    model.scale = 2.0
    for other in (model, Other().eval()):
        with patch(other, store=accepted[0]) as patched, caplog.at_level(logging.WARNING):
            for _ in range(3):
                answer, by_program = served(patched)
                assert not by_program and torch.equal(answer, patched._native(X))
        assert "another than the one that was judged" in patched.reason and "stays native" in caplog.text


def test_a_result_of_an_earlier_version_is_refused_where_it_cannot_be_compared(accepted, model):
    with Store(accepted[0]) as store:
        old = model_result("last", accepted[0]).model_copy(update={"identity": None})
        assert store.kept(MODEL_RESULT)
    with pytest.raises(InputError, match="earlier version"):
        patch(model, old, store=accepted[0])


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_torch_compile_sees_it_too(accepted, model, change, monkeypatch):
    for name in ("_inductor", "_lazily"):
        monkeypatch.setattr(backend, name, lambda graph, inputs=None: graph.forward)
    torch._dynamo.reset()
    call = torch.compile(model, backend=dynamo_backend, options={"store": accepted[0]})
    expected = model(X)
    torch.testing.assert_close(call(X), expected)
    change(model)
    torch.testing.assert_close(call(X), model(X))
    torch._dynamo.reset()


def test_autocast_and_transforms_are_native(accepted, model):
    with patch(model, store=accepted[0]) as patched:
        served(patched)
        with torch.autocast("cpu", torch.bfloat16):
            assert not served(patched)[1]
        assert torch.equal(torch.func.vmap(model)(torch.ones(3, 2, 4)), torch.full((3, 2, 4), 32.0))
        assert patched.calls == 0 and served(patched)[1]


def test_only_what_is_outside_the_state_counts():
    lstm = nn.LSTM(2, 2)
    assert not places_outside(lstm), "its list of weights holds what the state holds"
    lstm.again = [lstm]
    lstm.parts = [nn.Linear(2, 2)]
    assert [p.name for p in places_outside(lstm)] == ["parts[0].weight", "parts[0].bias"]
    with torch.inference_mode():
        lstm.parts = [torch.ones(2)]
    assert "inference mode" in Outside(lstm).changed()
