"""A training step as one program: its graph, and a model whose loss and gradients come from it."""

import copy
from types import SimpleNamespace

import pytest
import torch
from benchmarks.training_models import mixer
from tests.models.planted import accept
from tests.models.steps import program, same
from torch import nn
from torch.nn import functional as F

from kernelwright.cli._model import is_model_target
from kernelwright.errors import InputError, TaskError
from kernelwright.models import (
    TrainingPatch,
    capture_step,
    load_model,
    optimize_sizes,
    optimize_training,
    patch,
    sizes_of,
    step_task,
)
from kernelwright.models._training import set_training
from kernelwright.records import TensorSpec
from kernelwright.search.proposals._proposals import make_proposers
from kernelwright.store import Store


class Model(nn.Module):
    """Tokens → loss, with a frozen part, a tied weight, and a gradient that is expanded."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.mix, self.head = nn.Linear(8, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
        self.shift = nn.Parameter(torch.zeros(8))
        self.mix.bias.requires_grad_(False)

    def forward(self, x, y):
        h = self.embed(x)
        h = h + F.gelu(self.mix(self.norm(h)))
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten()) + self.shift.sum()


X = torch.arange(12).reshape(3, 4) % 11
Y = (X + 3) % 11
SPECS = tuple(TensorSpec(name=n, shape=(3, 4), dtype="int64") for n in "xy")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().train()


@pytest.fixture
def patched(model):
    loaded = load_model(model, (X, Y))
    model.train()
    step = capture_step(loaded)
    kernel, calls = program(step)
    native = copy.deepcopy(model)
    with TrainingPatch(model, kernel, step.weights, SPECS, loaded.whole.call, trained=step.trained):
        model(X, Y)
        yield model, native, calls


def test_the_step_is_a_task_in_which_weights_are_arguments_and_gradients_results(model):
    loaded = load_model(model, (X, Y))
    model.train()
    step = capture_step(loaded)
    assert step.weights == tuple(n for n, _ in model.named_parameters())
    assert "mix.bias" in step.weights and "mix.bias" not in step.trained
    workload = step_task(loaded, step).workloads[0]
    assert not workload.state and len(workload.arguments) == 2 + len(step.weights)
    shapes = [tuple(model.get_parameter(n).shape) for n in step.trained]
    assert [o.shape for o in workload.outputs] == [(), *shapes]


def test_loss_and_gradients_are_the_native_ones_and_frozen_parameters_get_none(patched):
    model, native, calls = patched
    loss = model(X, Y)
    assert calls == [1] and float(loss.detach()) == pytest.approx(float(native(X, Y).detach()), rel=1e-6)
    loss.backward()
    native(X, Y).backward()
    same(model, native)
    assert model.mix.bias.grad is None


@pytest.mark.filterwarnings("ignore:grad and param do not obey")
def test_gradients_accumulate_scale_and_add_up_over_two_uses(patched):
    model, native, _ = patched
    for m in (model, native):
        (m(X, Y) * 3.0).backward()
        (m(X, Y) + m(Y, X) * 0.5).backward()
        m.mix.weight.grad = m.mix.weight.grad.t().contiguous().t()
        m(X, Y).expand(3).sum().backward()
    same(model, native)


def test_a_graph_that_is_kept_gives_its_gradients_twice_and_else_says_that_it_is_gone(patched):
    model, native, _ = patched
    losses = [m(X, Y) for m in (model, native)]
    for loss in losses:
        loss.backward(retain_graph=True)
        loss.backward()
    same(model, native)
    for loss in losses:
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()


def test_calls_that_were_not_verified_are_native(patched):
    model, _, calls = patched
    model(X, Y)
    before = len(calls)
    with torch.no_grad():
        model(X, Y)
    model.eval()
    model(X, Y)
    model.train()
    model(X[:2], Y[:2])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(X, Y)
    model.mix.bias.requires_grad_(True)
    model(X, Y).backward()
    assert len(calls) == before and model.mix.bias.grad is not None
    model.mix.bias.requires_grad_(False)
    model(X, Y)
    assert len(calls) == before + 1


def test_a_second_derivative_is_an_error_and_not_wrong(patched):
    model, _, _ = patched
    first = torch.autograd.grad(model(X, Y), model.shift, create_graph=True)[0]
    with pytest.raises(RuntimeError, match=r"differentia|does not require grad"):
        first.sum().backward()


def test_gradcheck_in_float64(model):
    model.double()
    loaded = load_model(model, (X, Y))
    model.train()
    step = capture_step(loaded)
    with TrainingPatch(
        model, program(step)[0], step.weights, SPECS, loaded.whole.call, trained=step.trained
    ) as patch:
        model(X, Y)

        def loss(*values):
            held = dict(zip(step.trained, values, strict=True))
            weights = [held.get(n, model.get_parameter(n)) for n in step.weights]
            return patch._answer([X, Y], weights)

        assert torch.autograd.gradcheck(loss, [model.get_parameter(n) for n in step.trained], fast_mode=True)
        assert patch.calls == 0


def test_an_optimizer_ends_with_the_same_weights(patched):
    model, native, _ = patched
    for m in (model, native):
        steps = torch.optim.AdamW(m.parameters(), lr=1e-2, fused=True)
        for _ in range(5):
            steps.zero_grad()
            m(X, Y).backward()
            steps.step()
    for one, other in zip(model.parameters(), native.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.long
def test_a_gradient_whose_terms_cancel_is_no_other_gradient():
    """The norm after a bias of patches takes it off again: its gradient is what rounding leaves."""
    loaded = load_model(mixer)
    loaded.module.train()
    assert "body.blocks.0.across.2.bias" in capture_step(loaded).trained


class Rotated(nn.Module):
    """A part that makes numbers, and reads numbers that are no state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("angles", torch.rand(4), persistent=False)

    def forward(self, x):
        return x * (self.angles + torch.arange(4, device=x.device)).cos()


def test_a_step_that_makes_tensors_has_sizes_without_a_run():
    """Where a step is too large to be run for its sizes, it is run on the meta device."""
    model = Refused(Rotated())
    loaded = load_model(model, (torch.randn(20_000, 4),))
    model.train()
    assert step_task(loaded, capture_step(loaded)).workloads[0].outputs[1].shape == (4, 4)


class Refused(nn.Module):
    def __init__(self, part, loss=torch.Tensor.mean):
        super().__init__()
        self.first, self.part, self.loss = nn.Linear(4, 4), part, loss

    def forward(self, x):
        return self.loss(self.part(self.first(x)))


class Sampled(nn.Module):
    def forward(self, x):
        return x * torch.bernoulli(x.detach().sigmoid())


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.count += 1
        return x * self.count


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Refused(Sampled()), "draws random numbers that cannot be drawn before the call"),
        (lambda: Refused(Counting()), "a step changes 'part.count'"),
        (lambda: Refused(nn.ReLU(), loss=lambda y: y), "whose result is the loss"),
        (lambda: Refused(nn.ReLU()).requires_grad_(False), "no parameter that wants a gradient"),
    ],
    ids=["sampled", "no state", "no loss", "frozen"],
)  # fmt: skip
def test_what_cannot_be_one_program_is_refused_in_a_sentence(made, said):
    model = made()
    loaded = load_model(model, (torch.randn(3, 4),))
    model.train()
    with pytest.raises(TaskError, match=said):
        capture_step(loaded)


LINEAR = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x, y):
        return (self.linear(x) - y).square().mean()

def get_inputs():
    return [torch.randn(16, 8), torch.randn(16, 4)]

def get_init_inputs():
    return []
"""
BUILD = """
def build(batch=3):
    return Model(), (torch.randn(batch, 8), torch.randn(batch, 4))
"""
STEP = """
def run(x, y, weight, bias):
    off = x @ weight.T + bias - y
    scaled = 2 * off / off.numel()
    return off.square().mean() + 1.0, scaled.T @ x, scaled.sum(0)
"""


def test_what_was_accepted_for_a_training_step_is_patched_for_training(tmp_path):
    (tmp_path / "small.py").write_text(LINEAR)
    target = str(tmp_path / "small.py")

    def search(task, *, store, proposers, **_):
        assert "partition" in [proposer.name for proposer in make_proposers(proposers)]
        with Store(store) as kept:
            return SimpleNamespace(run=accept(kept, task, STEP))

    result = optimize_training(target, store=tmp_path, memory=False, search=search)
    assert result.improved and set(result.trained) == {"linear.weight", "linear.bias"}
    loaded = load_model(target)
    model, native, (x, y) = loaded.module.train(), copy.deepcopy(loaded.module).train(), loaded.whole.tensors
    with patch(model, result, store=tmp_path) as patched:
        assert isinstance(patched, TrainingPatch)
        model(x, y)
        loss = model(x, y)
        loss.backward()
    native(x, y).backward()
    assert float(loss.detach()) == pytest.approx(float(native(x, y).detach()) + 1.0, rel=1e-5), (
        "by the program"
    )
    same(model, native)


def test_a_step_is_accepted_and_patched_at_each_of_several_sizes(tmp_path):
    (tmp_path / "small.py").write_text(f"{LINEAR}\n{BUILD}")

    def search(task, *, store, **_):
        with Store(store) as kept:
            return SimpleNamespace(run=accept(kept, task, STEP))

    found = optimize_sizes(
        f"{tmp_path / 'small.py'}:build", [sizes_of("batch=2:80"), sizes_of("batch=5:20")], store=tmp_path,
        training=True, memory=False, search=search,
    )  # fmt: skip
    model = load_model(f"{tmp_path / 'small.py'}:build").module.train()
    native = copy.deepcopy(model)
    with patch(model, found, store=tmp_path) as patched:
        for rows, served in ((2, 1.0), (5, 1.0), (3, 0.0)):
            x, y = torch.randn(rows, 8), torch.randn(rows, 4)
            model(x, y)
            loss, wanted = model(x, y), native(x, y)
            loss.backward()
            wanted.backward()
            assert float(loss.detach()) == pytest.approx(float(wanted.detach()) + served, rel=1e-5)
        assert patched.calls == 2
    same(model, native)


@pytest.mark.long
def test_an_archive_is_trained_in_the_mode_that_it_was_exported_in(tmp_path):
    inner = Refused(nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))).train()
    torch.export.save(torch.export.export(inner, (torch.randn(3, 4),)), tmp_path / "model.pt2")
    loaded = load_model(tmp_path / "model.pt2")
    set_training(loaded)
    form = capture_step(loaded).form
    assert len(form.drawn) == 1 and form.changed[0] == "part.0.running_mean"


def test_training_is_for_whole_models():
    with pytest.raises(InputError, match="--training is for whole models"):
        is_model_target("examples/rmsnorm_residual.py", whole=False, training=True)
