"""Parameters and buffers: random where they may be, kept where they mean something."""

import torch
from torch import nn

from kernelwright.tasks.inputs._state import StateModel, construct


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)
        self.batch = nn.BatchNorm1d(64)
        self.table = nn.Embedding(10, 8, padding_idx=0)
        self.logs = nn.Parameter(torch.arange(1.0, 17.0).log())
        self.scalar = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)))
        self.register_buffer("index", torch.arange(8))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.bool))
        self.register_buffer("noise", torch.randn(32))
        self.tied = self.linear.weight


MODEL = StateModel(Everything)
STATE = MODEL.sample(1)


def test_it_loads_strictly() -> None:
    Everything().load_state_dict(STATE)


def test_no_learnable_tensor_is_all_alike() -> None:
    names = [n for n, p in Everything().named_parameters() if p.numel() > 1]
    assert {"norm.weight", "norm.bias", "batch.weight"} <= set(names)
    for name in names:
        assert float(STATE[name].std()) > 1e-3, name
    assert float(STATE["scalar"]) not in {0.0, 1.0}


def test_affine_weights_stay_near_one_and_random_weights_at_their_scale() -> None:
    assert 0.5 < float(STATE["norm.weight"].mean()) < 1.5
    torch.manual_seed(0)
    fresh = nn.Linear(64, 64).weight.detach()
    assert 0.8 < float(STATE["linear.weight"].std() / fresh.std()) < 1.25


def test_running_statistics_are_random_and_variances_positive() -> None:
    assert float(STATE["batch.running_mean"].std()) > 0.05
    assert float(STATE["batch.running_var"].std()) > 0.05
    assert float(STATE["batch.running_var"].min()) > 0


def test_declared_structure_stays() -> None:
    fresh = Everything()
    for name in ("mask", "index", "seen", "batch.num_batches_tracked"):
        assert torch.equal(STATE[name], fresh.state_dict()[name]), name
    assert bool((STATE["table.weight"][0] == 0).all())
    assert not bool((STATE["table.weight"][1:] == 0).any())


def test_random_buffers_are_drawn_anew() -> None:
    assert not torch.equal(STATE["noise"], MODEL.sample(2)["noise"])


def test_structured_parameters_keep_their_shape_roughly() -> None:
    expected = torch.arange(1.0, 17.0).log()
    assert not torch.equal(STATE["logs"], expected)
    assert float((STATE["logs"] - expected).abs().max()) < 3.0


def test_tied_parameters_stay_tied() -> None:
    assert torch.equal(STATE["tied"], STATE["linear.weight"])


def test_the_seed_decides_and_the_process_s_random_state_stays() -> None:
    before = torch.random.get_rng_state()
    model = StateModel(Everything)
    first, again, other = model.sample(5), model.sample(5), model.sample(6)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not torch.equal(first["linear.weight"], other["linear.weight"])


def test_construct_is_repeatable() -> None:
    a, b = construct(Everything), construct(Everything)
    assert torch.equal(a.get_buffer("noise"), b.get_buffer("noise"))


def test_a_parameter_that_starts_as_the_identity_becomes_dense_and_a_frozen_one_stays():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.learnt = nn.Parameter(torch.eye(6))
            self.mask = nn.Parameter(torch.eye(6), requires_grad=False)

    state = StateModel(Mixed).sample(1)
    assert (state["learnt"] != 0).all()
    assert torch.equal(state["mask"] == 0, torch.eye(6) == 0)
