"""torch's optimizers with steps of one kernel: the same weights, states, hooks and schedules, and off again."""

import copy

import pytest
import torch
from torch import nn

from kernelwright.errors import InputError
from kernelwright.models import OptimizerPatch


def trained(optimizer, model, steps=3):
    for number in range(steps):
        optimizer.zero_grad()
        model(torch.full((4, 6), 0.1 * number + 0.1)).square().mean().backward()
        optimizer.step()


def pair(kind=torch.optim.AdamW, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    other = copy.deepcopy(model)
    return (kind(model.parameters(), **options), model), (kind(other.parameters(), **options), other)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1, "amsgrad": True}),
        (torch.optim.AdamW, {"lr": 1e-2, "fused": True}),
        (torch.optim.Adafactor, {"lr": 1e-2}),
    ],
    ids=["amsgrad", "fused", "adafactor"],
)
def test_steps_are_the_native_ones_before_within_and_after_a_patch(kind, options):
    (one, model), (other, native) = pair(kind, **options)
    for within in (False, True, False):
        if within:
            with OptimizerPatch(one) as patch:
                assert isinstance(one, kind) and type(one) is not kind and patch.optimizer is one
                trained(one, model)
        else:
            trained(one, model)
        trained(other, native)
        assert type(one) is kind
    torch.testing.assert_close(dict(model.state_dict()), dict(native.state_dict()))
    torch.testing.assert_close(one.state_dict()["state"], other.state_dict()["state"])
    assert one.state_dict()["param_groups"] == other.state_dict()["param_groups"]


def test_the_kernel_makes_the_step(monkeypatch):
    (one, model), _ = pair()
    with OptimizerPatch(one), monkeypatch.context() as patched:
        calls = []
        patched.setattr(type(one), "_moved", lambda *_: calls.append(1))
        trained(one, model, 1)
        assert calls == [1]


def test_hooks_schedules_and_a_scaler_go_on():
    (one, model), (other, native) = pair(fused=True)
    seen = []
    one.register_step_post_hook(lambda *_: seen.append(1))
    with OptimizerPatch(one):
        for optimizer, module in ((one, model), (other, native)):
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            for _ in range(2):
                optimizer.zero_grad()
                scaler.scale(module(torch.ones(2, 6)).square().mean()).backward()
                scaler.step(optimizer)
                scaler.update()
                schedule.step()
    torch.testing.assert_close(dict(model.state_dict()), dict(native.state_dict()))
    assert len(seen) == 2 and one.param_groups[0]["lr"] == other.param_groups[0]["lr"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), "no kernel has the steps of torch.optim.sgd.SGD; expected torch"),
        (lambda p: torch.optim.AdamW(p, differentiable=True), "with differentiable=True cannot be patched"),
        (lambda p: torch.optim.AdamW([q.data.double() for q in p]), "is torch.float64 on cpu; expected float32"),
    ],
    ids=["kind", "option", "dtype"],
)  # fmt: skip
def test_what_no_kernel_serves_is_refused_and_stays_as_it_is(made, said):
    optimizer = made(list(nn.Linear(2, 2).parameters()))
    before = type(optimizer)
    with pytest.raises(InputError, match=said):
        OptimizerPatch(optimizer)
    assert type(optimizer) is before
