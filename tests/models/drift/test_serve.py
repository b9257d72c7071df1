"""Models are served alone, through the cache and in a batch, whatever form they have."""

import pytest
import torch
from tests.models.drift.conftest import SMALL
from tests.models.drift.tiny import Tiny
from torch import nn

from kernelwright.errors import InputError
from kernelwright.models.drift import Requests, Scene, drift, own_text, serve
from kernelwright.models.drift._cause import find_cause, swapped
from kernelwright.models.drift._serve import DEPLOYED, generate

REQUESTS = Requests((torch.arange(3, 12), torch.tensor([5, 1, 7, 7])), 3)


def test_a_right_model_gives_the_same_in_every_scene():
    model = Tiny(SMALL).double()
    alone = serve(model, REQUESTS, Scene.ALONE)
    assert [len(y) for y in alone] == [9, 4]
    for scene in DEPLOYED[1:]:
        for y, other in zip(alone, serve(model, REQUESTS, scene), strict=True):
            torch.testing.assert_close(y, other, rtol=0, atol=1e-12)


class Watched(nn.Module):
    """Says how it was called."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, tokens, cache=None, mask=None):
        self.calls.append((tuple(tokens.shape), cache, None if mask is None else mask.sum(1).tolist()))
        return torch.zeros(*tokens.shape, 4), (cache or 0) + tokens.shape[1]


def test_tokens_come_one_by_one_with_the_cache_and_the_mask():
    model = Watched()
    serve(model, REQUESTS, Scene.DECODED)
    assert model.calls[:4] == [((1, 6), None, None), ((1, 1), 6, None), ((1, 1), 7, None), ((1, 1), 8, None)]
    model.calls.clear()
    serve(model, REQUESTS, Scene.BATCHED)
    assert model.calls == [
        ((2, 6), None, [6, 1]), ((2, 1), 6, [7, 2]), ((2, 1), 7, [8, 3]), ((2, 1), 8, [9, 4])
    ]  # fmt: skip


def test_a_callable_that_knows_no_padding_is_batched_by_length():
    shapes = []

    def model(tokens):
        shapes.append(tuple(tokens.shape))
        return torch.zeros(*tokens.shape, 4)

    same = Requests((torch.arange(4), torch.arange(5), torch.arange(1, 5)), 1)
    assert [len(y) for y in serve(model, same, Scene.BATCHED)] == [4, 5, 4]
    assert (2, 3) in shapes and (2, 4) in shapes and (1, 5) in shapes


def test_greedy_text_is_what_the_whole_model_would_choose():
    model = Tiny(SMALL)
    prompt = torch.arange(3)
    text = generate(model, prompt, 5, lambda y: y.argmax(-1))
    whole = model(torch.cat((prompt, text))[None])[0][0].argmax(-1)
    assert torch.equal(text, whole[2:-1])


def test_own_text_follows_the_models_own_distribution():
    """Planted: a model that says the next token is one more, with certainty."""

    class Next(nn.Module):
        def forward(self, tokens):
            return 50.0 * nn.functional.one_hot((tokens + 1) % 7, 7).float()

    (row,) = own_text(Next(), (9,), 2, seed=0).tokens
    assert torch.equal(row[1:], (row[:-1] + 1) % 7)


@pytest.mark.parametrize("bad", [lambda x: 7, lambda x: torch.zeros(2, 3), lambda x: torch.zeros(1, 1, 4)])
def test_outputs_that_are_no_logits_are_refused(bad):
    with pytest.raises(InputError, match="expected logits"):
        serve(bad, REQUESTS, Scene.ALONE)


def test_a_cause_is_bisected_over_many_submodules():
    native = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(16)))
    for guilty in (0, 7, 15):
        wrong = nn.Sequential(*(nn.Sequential(*block) for block in native))
        wrong[guilty][0] = nn.Linear(2, 2)
        part = wrong[guilty][0]
        found = find_cause(native, wrong, lambda model, part=part: any(m is part for m in model.modules()))
        assert (found.path, found.alone, found.own) == (f"{guilty}.0", True, False)
        assert found.tried <= 12


def test_parts_that_drift_only_together_are_said_to():
    native = nn.Sequential(*(nn.Linear(2, 2) for _ in range(8)))
    wrong = nn.Sequential(*native)
    wrong[2], wrong[6] = nn.Linear(2, 2), nn.Linear(2, 2)
    parts = {wrong[2], wrong[6]}
    found = find_cause(native, wrong, lambda model: parts <= set(model.modules()))
    assert (found.path, found.alone) == ("2", False)
    assert "together with others" in str(found)


def test_a_swap_is_undone_after_an_error():
    model, own = nn.Sequential(nn.ReLU()), nn.ReLU()
    before = model[0]
    with pytest.raises(ZeroDivisionError), swapped(model, {"0": own}):
        1 / 0  # noqa: B018
    assert model[0] is before


@pytest.mark.needs("transformers")
def test_a_model_of_transformers_is_served_with_its_own_cache():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, initializer_range=0.3, attn_implementation="eager",
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    alone, batched = (serve(model, REQUESTS, scene) for scene in (Scene.ALONE, Scene.BATCHED))
    for y, other in zip(alone, batched, strict=True):
        torch.testing.assert_close(y, other, rtol=0, atol=1e-4)
    import copy

    wrong = copy.deepcopy(model)
    wrong.model.layers[1].post_attention_layernorm.variance_epsilon *= 100
    found = drift(model, wrong, REQUESTS, draws=4)
    assert found.outcome.value == "drifted"
    assert found.cause.path == "model.layers.1.post_attention_layernorm"
    assert drift(model, copy.deepcopy(model), REQUESTS, draws=4).outcome.value == "same"
