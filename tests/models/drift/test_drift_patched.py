"""Drift of patched models: as deployed at the sizes that were verified, and by their kernels or not at all."""

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from kernelwright.errors import InputError
from kernelwright.models import Patch, load_model
from kernelwright.models._sized_patch import SizedPatch
from kernelwright.models.drift import Outcome, Padded, Requests, Scene, drift, serve
from kernelwright.records import TensorSpec

SIZES, VOCABULARY, WIDTH = [(1, 8), (3, 8)], 24, 16
WEIGHTS = ("embedding.weight", "mixed.weight", "mixed.bias", "head.weight", "head.bias")
LENGTHS, STEPS = (3, 5, 8), 2


class Causal(nn.Module):
    """Each token sees the mean of those before it and its own."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mixed = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens).cumsum(1)
        x = x / torch.arange(1, tokens.shape[1] + 1).view(-1, 1)
        return self.head(functional.gelu(self.mixed(x)))


def kernel(tokens, table, weight, bias, head, head_bias, approximate="none"):
    """Compute the same by a product with a triangle."""
    count = tokens.shape[1]
    triangle = torch.ones(count, count, dtype=table.dtype).tril()
    x = (triangle / triangle.sum(1, keepdim=True)) @ table[tokens]
    return functional.linear(
        functional.gelu(functional.linear(x, weight, bias), approximate=approximate), head, head_bias
    )


def patched(model, run, sizes=SIZES):
    def at(size):
        call = load_model(model, (torch.zeros(size, dtype=torch.int64),)).whole.call
        return Patch(model, run, WEIGHTS, (TensorSpec(name="tokens", shape=size, dtype="int64"),), call)

    SizedPatch(model, [partial(at, size) for size in sizes])
    return model


@pytest.fixture
def native():
    torch.manual_seed(3)
    return Causal().eval()


def compared(native, run):
    changed = patched(copy.deepcopy(native), run)
    return drift(Padded(native, SIZES), Padded(changed, SIZES), lengths=LENGTHS, steps=STEPS, draws=6)


def test_a_right_kernel_that_answers_all_calls_is_the_same(native):
    found = compared(native, kernel)
    assert found.outcome is Outcome.SAME
    assert [s.scene for s in found.scenes] == ["alone", "decoded", "batched"], "kernels know no float64"
    for scene in found.scenes:
        assert scene.kernel_calls > 0 and scene.native_calls == 0
        assert scene.deterministic and scene.overall > 0
    assert f"kernels answered {sum(s.kernel_calls for s in found.scenes)} of" in found.reason
    text = found.generation
    assert text.same == text.sampled == text.prompts == 3 and text.first_sampled == STEPS
    assert [one.path for one in found.layers] == ["model"] and found.layers[0].changed > 0


def test_a_wrong_kernel_drifts_and_the_patched_part_is_the_cause(native):
    found = compared(native, partial(kernel, approximate="tanh"))
    assert found.outcome is Outcome.DRIFTED
    assert found.cause.path == "model" and found.cause.alone


def test_text_by_the_same_random_numbers_differs_where_the_distribution_does(native):
    found = compared(native, lambda *given: kernel(*given).roll(1, -1))
    assert found.generation.sampled < found.generation.prompts
    assert found.generation.first_sampled < STEPS


def test_nothing_is_concluded_of_kernels_that_answered_nothing(native):
    changed = patched(copy.deepcopy(native), partial(kernel, approximate="tanh"), sizes=[(1, 7), (2, 7)])
    found = drift(native, changed, lengths=(3, 5), steps=1, draws=6)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "kernels answered none of" in found.reason and "verified sizes" in found.reason
    assert len(found.layers) == 3 and all(math.isnan(one.changed) for one in found.layers)


def test_padding_on_either_side_leaves_the_logits_as_they_are(native):
    random = torch.Generator().manual_seed(0)
    rows = tuple(torch.randint(VOCABULARY, (length,), generator=random) for length in LENGTHS)
    requests = Requests(rows, STEPS)
    wanted = serve(native, requests, Scene.ALONE)
    for scene in (Scene.ALONE, Scene.DECODED, Scene.BATCHED):
        for got, want in zip(serve(Padded(native, SIZES), requests, scene), wanted, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_more_than_the_sizes_hold_and_sizes_that_are_none_are_refused(native):
    with pytest.raises(InputError, match="1 requests of 9 tokens are more"):
        Padded(native, SIZES)(torch.zeros(1, 9, dtype=torch.int64))
    for sizes in ([], [(0, 4)], [(1, 2, 3)]):
        with pytest.raises(InputError, match="expected pairs"):
            Padded(native, sizes)
