"""Planted drifts are found, with their cause; honest rewritings are the same; what is not known is said."""

import copy
import dataclasses

import pytest
import torch
from tests.models.drift.changes import HONEST, PLANTED, SAMPLERS, changed, mixture, sampled
from tests.models.drift.conftest import LATE, SMALL
from tests.models.drift.tiny import Tiny
from torch import nn

from kernelwright.errors import InputError
from kernelwright.models.drift import Outcome, Requests, compare, drift, drift_of_calls, own_text
from kernelwright.models.drift._limits import DRIFTED, SAME

EVERY_KIND = [
    "eps_times_ten", "final_eps_missing", "wrong_rotary_half", "positions_off_by_one_later", "scale_of_head_plus_one",
    "softmax_in_bfloat16", "mask_wrong_at_the_last_token", "cache_off_by_one_later", "stale_cache_entry",
    "padding_attended", "gelu_by_tanh", "sum_in_half_if_batched", "bias_dropped", "int8_weights", "dropout_left_on",
    "soft_cap_missing", "other_expert_of_a_tie",
]  # fmt: skip
"""`python -m benchmarks.drift` goes through all, and through honest ones by the hundred."""
BEYOND_HALF = ["scale_of_head_plus_one", "gelu_by_tanh", "bias_dropped", "stale_cache_entry"]
FORMS = [
    "norm_by_torch",
    "products_in_six_parts",
    "attention_by_sdpa",
    "softmax_by_exp2",
    "attention_in_blocks",
    "cap_by_exp",
]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if i % 2 else ()) for i, n in enumerate(EVERY_KIND)]
)
def test_a_planted_drift_is_found_where_it_is(single, name):
    change, cause = PLANTED[name]
    found = compare(single.noise, changed(single.model, change, LATE))
    assert found.outcome is Outcome.DRIFTED
    assert found.cause.path == cause
    assert found.cause.alone
    assert found.cause.own == (not cause or cause.endswith(("attention", "mlp")))


@pytest.mark.parametrize("name", BEYOND_HALF)
def test_a_drift_below_the_rounding_of_half_precision_is_found_in_float64(half, name):
    change, cause = PLANTED[name]
    found = compare(half.noise, changed(half.model, change, LATE))
    assert found.outcome is Outcome.DRIFTED
    assert found.cause.path == cause
    if name in BEYOND_HALF[:2]:
        assert "within the noise of torch.bfloat16" in found.reason
        assert (
            compare(half.noise, changed(half.model, change, LATE), exact=False).outcome is not Outcome.DRIFTED
        )


@pytest.mark.parametrize("name", FORMS)
def test_an_honest_rewriting_is_the_same(single, half, name):
    for measured in (single, half):
        assert compare(measured.noise, changed(measured.model, HONEST[name])).outcome is Outcome.SAME


@pytest.mark.parametrize("seed", [0, 1])
def test_many_honest_rewritings_at_once_are_the_same(single, half, seed):
    for measured in (single, half):
        assert compare(measured.noise, changed(measured.model, mixture(seed))).outcome is Outcome.SAME


def test_the_scene_tells_what_kind_it_is(single):
    def scenes(name):
        found = compare(single.noise, changed(single.model, PLANTED[name][0], LATE))
        return found, {s.scene: s.excess > 1 for s in found.scenes}

    _, batch = scenes("padding_attended")
    assert batch == {"alone": False, "decoded": False, "batched": True, "exact": True}
    _, cache = scenes("stale_cache_entry")
    assert cache == {"alone": False, "decoded": True, "batched": True, "exact": True}
    rounding, seen = scenes("sum_in_half_if_batched")
    assert seen == {"alone": False, "decoded": False, "batched": True, "exact": False}
    assert "in float64 it computes the same" in rounding.reason
    random, _ = scenes("dropout_left_on")
    assert not random.scenes[0].deterministic
    assert all(s.deterministic for s in rounding.scenes)


def test_it_says_from_which_position_on(single):
    found = compare(single.noise, changed(single.model, PLANTED["positions_off_by_one_later"][0], LATE))
    assert found.scenes[0].first == LATE
    found = compare(single.noise, changed(single.model, PLANTED["mask_wrong_at_the_last_token"][0], LATE))
    assert found.scenes[0].beyond == pytest.approx(2 / 13)


def test_errors_grow_from_the_layer_that_drifts(single):
    found = compare(single.noise, changed(single.model, PLANTED["gelu_by_tanh"][0], LATE))
    errors = {one.path: one for one in found.layers}
    assert errors["layers.0"].changed > 50 * errors["layers.0"].native
    found = compare(single.noise, changed(single.model, PLANTED["soft_cap_missing"][0], LATE))
    errors = {one.path: one for one in found.layers}
    assert errors["head"].changed == errors["head"].native
    assert errors["cap"].changed > 100 * errors["cap"].native


def test_the_kernel_there_is_named(single):
    kernels = {"layers.0": "fused_layer", "layers.0.mlp": "fused_mlp"}
    found = compare(single.noise, changed(single.model, PLANTED["gelu_by_tanh"][0], LATE), kernels)
    assert found.cause.kernel == "fused_mlp"
    assert "fused_mlp" in found.reason


def test_of_two_causes_the_last_is_named(single):
    both = changed(single.model, PLANTED["gelu_by_tanh"][0], LATE)
    PLANTED["bias_dropped"][0](both, LATE)
    assert compare(single.noise, both).cause.path == "layers.2.mlp.down"


def test_all_of_it_for_two_deployments(single):
    native = sampled(single.model)
    wrong = changed(single.model, PLANTED["bias_dropped"][0], LATE)
    found = drift(native, sampled(wrong), single.requests, noise=single.noise)
    assert found.outcome is Outcome.DRIFTED
    assert found.sampler.p_value > 0.001
    assert found.agreement.kl > 100 * found.agreement.native_kl
    assert found.agreement.flips > 0 and found.agreement.first < 1
    assert found.agreement.rank < 0.999
    assert found.perplexity.items == 2
    assert found.generation.first < found.generation.tokens

    same = drift(native, sampled(copy.deepcopy(single.model)), single.requests, noise=single.noise)
    assert same.outcome is Outcome.SAME
    assert (same.agreement.first, same.agreement.five, same.agreement.flips) == (1, 1, 0)
    assert same.agreement.kl < 1e-12
    assert same.agreement.rank == pytest.approx(1)
    assert same.generation.same == same.generation.prompts
    assert same.perplexity.difference == 0


def test_a_sampler_alone_can_drift(single):
    native = sampled(single.model)
    other = sampled(single.model, SAMPLERS["temperature_after_the_cut"][0])
    found = drift(native, other, single.requests, noise=single.noise)
    assert found.outcome is Outcome.DRIFTED
    assert found.reason.startswith("the sampler")
    assert found.scenes[0].excess < 1


@pytest.mark.parametrize(("place", "outcome"), [(-0.1, "same"), (0.5, "inconclusive"), (1.1, "drifted")])
def test_between_the_two_limits_nothing_is_concluded(single, place, outcome):
    """Planted: the same error at each position, on a scale from the limit of the same, 0, to that of drift, 1."""
    noise = single.noise
    same, drifted = (noise.limits.limit("overall", chance) for chance in (SAME, DRIFTED))
    error = same + place * (drifted - same)
    assert error < noise.limits.limit("largest", SAME)
    lengths = [len(y) for y in noise.exact]
    moved = [
        y + error * n[:, None] for y, n in zip(noise.exact, noise.limits.noise.split(lengths), strict=True)
    ]
    planted = dataclasses.replace(noise, exam=lambda model, scene: moved)
    assert compare(planted, lambda x: x).outcome == outcome


class Random(nn.Module):
    """A native model that never gives the same twice."""

    def __init__(self):
        super().__init__()
        self.embed, self.head, self.drop = nn.Embedding(16, 8), nn.Linear(8, 16), nn.Dropout(0.2)

    def forward(self, x):
        return self.head(self.drop(self.embed(x)))


def test_a_native_model_that_is_not_itself_concludes_nothing():
    model = Random()
    found = drift(model, model, own_text(model, (4, 6), 2, 0), draws=4)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "not itself" in found.reason
    assert drift(model.eval(), model, own_text(model, (4, 6), 2, 0), draws=4).outcome is Outcome.SAME


def test_a_native_model_with_nan_concludes_nothing():
    model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
    requests = Requests((torch.arange(6),), 2)
    model[1].weight.data[3, 3] = torch.nan
    found = drift(model, model, requests, draws=4)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "not finite" in found.reason


def test_a_changed_model_with_nan_has_drifted(single):
    wrong = copy.deepcopy(single.model)
    wrong.head.weight.data[3] = torch.inf
    found = compare(single.noise, wrong)
    assert found.outcome is Outcome.DRIFTED
    assert found.cause.path == "head"


class Norm(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def test_any_two_callables():
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    ours = Norm(1e-5)
    assert (
        drift_of_calls(ours, lambda x: torch.rms_norm(x, (40,), eps=1e-5), [(x,)], draws=6).outcome
        is Outcome.SAME
    )
    found = drift_of_calls(ours, Norm(1e-4), [(x,)], draws=6)
    assert found.outcome is Outcome.DRIFTED
    assert found.cause.path == ""
    with pytest.raises(InputError, match="no inputs"):
        drift_of_calls(ours, ours, [])


def test_a_model_without_a_cache_is_served_whole():
    tiny = Tiny(SMALL, experts=False)
    found = drift(
        lambda x: tiny(x)[0], lambda x: tiny(x)[0], Requests((torch.arange(5), torch.arange(5)), 2), draws=4
    )
    assert found.outcome is Outcome.INCONCLUSIVE  # a function's parameters cannot be made float64
    whole = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
    assert drift(whole, whole, lengths=(3, 5), draws=4).outcome is Outcome.SAME


@pytest.mark.parametrize("wrong", [7, None, (), nn.Linear(3, 3), nn.Embedding(9, 9)])
def test_what_is_no_model_is_refused(single, wrong):
    with pytest.raises(InputError):
        drift(single.model, wrong, single.requests, noise=single.noise)


def test_requests_and_noise_that_do_not_fit_are_refused(single):
    with pytest.raises(InputError, match="both"):
        drift(single.model, single.model, noise=single.noise)
    with pytest.raises(InputError, match="outputs of"):
        drift(single.model, single.model, Requests((torch.arange(3),), 1), noise=single.noise)
    for tokens in ((), (torch.arange(1),), (torch.ones(4),)):
        with pytest.raises(InputError, match="expected rows"):
            Requests(tokens, 2)
