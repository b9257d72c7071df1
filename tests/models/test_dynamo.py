"""`torch.compile(backend="kernelwright")`: accepted programs where they hold, Inductor elsewhere, never wrong."""

import logging
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from tests.models.planted import MARK, accept_small
from torch import nn

import kernelwright.models._dynamo as backend
from kernelwright.deploy import Installed, set_installed
from kernelwright.errors import InputError
from kernelwright.models import dynamo_backend, load_model, patch
from kernelwright.models._accepted import LoadedProgram
from kernelwright.models._dynamo_form import dynamo_form
from kernelwright.records import TensorSpec
from kernelwright.store import Store

pytestmark = pytest.mark.usefixtures("graphs")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A store in which a program was accepted for the small model, the run, and the model."""
    store, run, loaded = accept_small(tmp_path_factory.mktemp("accepted"))
    return store, run, loaded.module


def compiled(model, store, **options):
    return torch.compile(model, backend=dynamo_backend, options={"store": store}, **options)


def away(call, model, x):
    """Return by how much an answer differs from the native one: the mark, where the program answered."""
    return float((call(x) - model(x)).mean())


def test_torch_finds_the_backend_by_its_name():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    named = groups["torch_dynamo_backends"]["kernelwright"]
    assert EntryPoint("kernelwright", named, "torch_dynamo_backends").load() is dynamo_backend


def test_the_program_answers_where_it_was_accepted_and_nowhere_else(accepted):
    store, _, model = accepted
    call, x = compiled(model, store), torch.randn(4, 16)
    assert away(call, model, x) == pytest.approx(MARK, abs=1e-3)
    assert away(call, model, torch.full((4, 16), 7.0)) == 0, "the program declines sevens"
    assert away(call, model, torch.randn(5, 16)) == 0, "other sizes"
    assert away(call, model, torch.randn(16, 4).t()) == 0, "another layout"
    assert away(call, model, x) == pytest.approx(MARK, abs=1e-3)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict({k: torch.randn_like(v) for k, v in before.items()})
    assert away(call, model, x) == pytest.approx(MARK, abs=1e-3), "weights are read in every call"
    model.load_state_dict(before)


def test_dynamic_sizes_find_the_program_at_the_sizes_that_it_was_accepted_on(accepted, graphs):
    store, _, model = accepted
    call = compiled(model, store)
    assert away(call, model, torch.randn(5, 16)) == 0
    assert away(call, model, torch.randn(6, 16)) == 0
    many = len(graphs)
    assert away(call, model, torch.randn(4, 16)) == pytest.approx(MARK, abs=1e-3)
    assert away(call, model, torch.randn(9, 16)) == 0 and len(graphs) == many, "one graph serves all sizes"


def test_sizes_that_no_program_serves_are_forgotten_and_those_served_are_not(monkeypatch):
    monkeypatch.setattr(backend, "_MOST_SIZES", 4)
    asked = []

    class Known:
        def serving(self, arguments):
            asked.append(len(arguments[0]))
            return (lambda _: "served") if len(arguments[0]) == 2 else None

    call = backend._BySizes(Known(), lambda *_: "native")
    for size in (2, *range(10, 40)):
        assert call(torch.ones(size)) == ("served" if size == 2 else "native")
    assert len(call._found) == 4
    assert call(torch.ones(2)) == "served" and call(torch.ones(39)) == "native"
    assert asked.count(2) == 1 and asked.count(39) == 1


def test_gradients_autocast_and_broken_graphs_are_native(accepted):
    store, _, model = accepted
    call, x = compiled(model, store), torch.randn(4, 16)
    with torch.enable_grad():
        out = call(x)
        out.sum().backward()
        assert model.norms[0].weight.grad is not None and torch.equal(out, model(x))
        model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        assert away(call, model, x) == 0

    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            y = x * 2
            torch._dynamo.graph_break()
            return self.inner(y)

    assert away(compiled(Broken(), store), Broken(), x) == pytest.approx(MARK, abs=1e-3), (
        "the piece is the model"
    )


def test_another_model_of_the_same_sizes_is_native(accepted):
    store, _, model = accepted

    class Other(type(model)):
        def forward(self, x, scale=0.5):
            return super().forward(x, scale)

    other = Other().eval()
    assert away(compiled(other, store), other, torch.randn(4, 16)) == 0


def test_what_was_switched_off_or_accepted_elsewhere_is_not_used(accepted, tmp_path, caplog):
    store, run, model = accepted
    x = torch.randn(4, 16)
    with Store(store) as kept:
        set_installed(kept, Installed(run=run, state="native", reason="slower since the upgrade"))
    try:
        assert away(compiled(model, store), model, x) == 0
        with pytest.raises(InputError, match="slower since the upgrade"):
            patch(model, run, store=store)
    finally:
        with Store(store) as kept:
            set_installed(kept, Installed(run=run))
    old, run, loaded = accept_small(tmp_path, {"torch": "1.0"})
    torch._dynamo.reset()
    with caplog.at_level(logging.WARNING):
        assert away(compiled(loaded.module, old), loaded.module, x) == 0
    assert f"accepted with torch 1.0, now {torch.__version__}" in caplog.text and run in caplog.text


class Shifted(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.register_buffer("by", torch.full((3,), by), persistent=False)

    def forward(self, x):
        return (x * 2, x + self.by)


def test_a_buffer_outside_the_state_must_hold_what_was_verified(monkeypatch):
    form = dynamo_form(load_model(Shifted(1.0), (torch.ones(2, 3),)), ())
    assert form is not None and form.results == (0, 1) and len(form.constants) == 1
    spec = TensorSpec(name="x", shape=(2, 3), dtype="float32")

    class Planted:
        name = "shifted"

        def __init__(self):
            self.form = form

        def load(self):
            return LoadedProgram(lambda x: (x * 2 + MARK, x + 1 + MARK), (spec,), ())

    monkeypatch.setattr(backend, "programs", lambda _: iter([Planted()]))
    x = torch.ones(2, 3)
    model = Shifted(1.0)
    call = torch.compile(model, backend=dynamo_backend)
    assert call(x)[1][0, 0] == 2 + MARK
    model.by.fill_(5.0)
    assert call(x)[1][0, 0] == 6, "the buffer was written to"
    assert torch.compile(Shifted(3.0), backend=dynamo_backend)(x)[1][0, 0] == 4


def test_a_model_that_changes_what_it_is_given_has_no_form():
    class Writes(nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    class Breaks(nn.Module):
        def forward(self, x):
            return x * 2 if float(x.sum()) > 0 else x

    class Random(nn.Module):
        def forward(self, x):
            return x + torch.rand(3)

    for model in (Writes(), Breaks(), Random()):
        assert dynamo_form(load_model(model, (torch.ones(2, 3),)), ()) is None


def test_an_option_that_is_not_known_is_named():
    with pytest.raises(InputError, match="no option 'stor'"):
        dynamo_backend(torch.fx.symbolic_trace(nn.ReLU()), [torch.ones(1)], options={"stor": 1})
