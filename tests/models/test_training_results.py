"""What a training step draws and returns besides loss and gradients: random numbers, statistics, other results."""

import copy
from dataclasses import dataclass

import pytest
import torch
from tests.models.steps import program, same
from torch import nn
from torch.nn import functional as F

from kernelwright.models import TrainingPatch, capture_step, load_model
from kernelwright.models._identity import graph_hash
from kernelwright.models._joint import TrainedWhole
from kernelwright.models._records import Identity
from kernelwright.models._snapshot import snapshots
from kernelwright.records import TensorSpec


@dataclass
class Output:
    """A result like those of transformers."""

    scores: torch.Tensor
    loss: torch.Tensor


class Noisy(nn.Module):
    """Images → scores and loss, with running statistics, two kinds of dropout, and noise."""

    def __init__(self, how=Output):
        super().__init__()
        self.first, self.norm, self.how = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), how
        self.some, self.channels, self.head = nn.Dropout(0.3), nn.Dropout2d(0.2), nn.Linear(4, 3)
        self.pooled = nn.Linear(4, 2)

    def forward(self, x, y):
        h = self.some(self.norm(self.first(x)).relu())
        self.pooled(h.mean((2, 3)))  # no loss depends on it
        h = self.head(self.channels(h + torch.rand_like(h) + 0.1 * torch.randn_like(h)).mean((2, 3)))
        return self.how(h, F.cross_entropy(h, y))


IMAGES, KINDS = torch.randn(5, 2, 6, 6, generator=torch.Generator().manual_seed(0)), torch.arange(5) % 3
NOISY_SPECS = (
    TensorSpec(name="x", shape=(5, 2, 6, 6), dtype="float32"),
    TensorSpec(name="y", shape=(5,), dtype="int64"),
)


@pytest.fixture(scope="module")
def captured():
    torch.manual_seed(0)
    loaded = load_model(Noisy(), (IMAGES, KINDS))
    loaded.module.train()
    before = copy.deepcopy(loaded.module.state_dict())
    step = capture_step(loaded)
    torch.testing.assert_close(dict(loaded.module.state_dict()), dict(before))
    return loaded, step


def patched(captured, model, **more):
    """Return a patch of a model by the captured step, and the calls of its kernel."""
    loaded, step = captured
    kernel, calls = program(step)
    more = {"snapshots": snapshots(), "form": step.form} | more
    call = loaded.whole.call
    return TrainingPatch(model, kernel, step.weights, NOISY_SPECS, call, trained=step.trained, **more), calls


@pytest.fixture
def noisy(captured):
    model, native = (copy.deepcopy(captured[0].module) for _ in range(2))
    patch, calls = patched(captured, model)
    with patch:
        for one in (model, native):
            torch.manual_seed(0)
            one(IMAGES, KINDS)
        yield model, native, calls


def test_random_numbers_are_the_models_own_and_running_statistics_follow(noisy):
    model, native, calls = noisy
    for seed in range(3):  # the last call is checked by compiled code, where that can be made
        found = []
        for one in (model, native):
            torch.manual_seed(seed)
            found.append(one(IMAGES, KINDS))
            found[-1].loss.backward()
        assert isinstance(found[0], Output) and len(calls) == seed + 1
        torch.testing.assert_close(vars(found[0]), vars(found[1]))
    same(model, native)
    assert model.pooled.weight.grad is None
    torch.testing.assert_close(dict(model.state_dict()), dict(native.state_dict()))
    assert int(model.norm.num_batches_tracked) == 4


def test_a_call_that_the_kernel_declines_has_the_native_random_numbers(captured):
    """By the first patch Python checks the second call; by the other one compiled code does the third."""
    loaded, step = captured
    served, calls = program(step)

    def kernel(*given):
        if len(calls) >= limit:
            raise NotImplementedError("Unsupported: enough")
        return served(*given)

    for limit in (0, 1):
        calls.clear()
        model, native = (copy.deepcopy(loaded.module) for _ in range(2))
        more = {"snapshots": snapshots(), "trained": step.trained, "form": step.form}
        with TrainingPatch(model, kernel, step.weights, NOISY_SPECS, loaded.whole.call, **more) as patch:
            for number in range(2 + limit):
                found, after = [], []
                for one in (model, native):
                    torch.manual_seed(number)
                    found.append(one(IMAGES, KINDS))
                    found[-1].loss.backward()
                    after.append(float(torch.rand(())))
                torch.testing.assert_close(vars(found[0]), vars(found[1]))
                assert after[0] == after[1]
        assert patch.calls == limit
        same(model, native)


def test_a_gradient_through_another_result_is_an_error_and_not_left_out(noisy):
    model, _, _ = noisy
    found = model(IMAGES, KINDS)
    with pytest.raises(RuntimeError, match="through a result that is not the loss"):
        (found.loss + found.scores.square().mean()).backward()


@pytest.mark.parametrize(("how", "place"), [(lambda h, loss: {"loss": loss, "scores": h}, 0),
                                            (lambda h, loss: (loss, h), 0),
                                            (lambda h, loss: {"scores": h, "loss": loss}, 1)])  # fmt: skip
def test_the_loss_is_found_by_name_or_comes_first(how, place):
    whole = TrainedWhole(Noisy(how).train(), (IMAGES, KINDS), {})
    assert [t.requires_grad for t in whole(*whole.tensors)] == [p == place for p in (0, 1)]


@pytest.mark.long
def test_a_step_with_other_random_numbers_is_not_the_judged_one(captured, caplog):
    _, step = captured
    identity = Identity(graph=graph_hash(step.capture), torch=torch.__version__)
    other = step.form.model_copy(update={"drawn": step.form.drawn[:-1]})
    for form, reason in ((other, "another than the one that was judged"), (step.form, "")):
        model = copy.deepcopy(captured[0].module)
        patch, _ = patched(captured, model, identity=identity, form=form)
        with patch:
            model(IMAGES, KINDS).loss.backward()
        assert reason in patch.reason and bool(reason) == bool(patch.reason)
    assert "stays native" in caplog.text
