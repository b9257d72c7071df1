"""Whole networks: attention, products and convolutions of every layer in the forms that run fastest, together."""

from functools import reduce

import pytest
import torch
import torch.nn.functional as F
from tests.compiler.test_packed_products import drawn, weighed

from kernelwright.compiler._layouts import laid_out
from kernelwright.compiler.actions import ACTIONS, State
from kernelwright.compiler.graph import Ramp, interpret
from kernelwright.compiler.policy import Faults, _beam, leaves
from kernelwright.compiler.policy._starts import in_panels
from kernelwright.compiler.tile import products, run_program

WIDTH, HEADS, TOKENS = 32, 2, 3


def attention(x, q, k, v, o, *, shared=1, turned=False, bias=0.0):
    """Attend to what linear layers make of tokens; `shared` heads have the same keys and values."""
    deep = WIDTH // HEADS
    query = F.linear(x, q).view(1, TOKENS, HEADS, deep).transpose(1, 2) + bias
    key, value = (F.linear(x, w).view(1, TOKENS, HEADS // shared, deep).transpose(1, 2) for w in (k, v))
    if turned:
        turns = torch.outer(torch.arange(TOKENS).float(), torch.arange(deep // 2) + 0.5).repeat(1, 2)
        query, key = (
            t * turns.cos() + torch.cat((-t[..., deep // 2 :], t[..., : deep // 2]), -1) * turns.sin()
            for t in (query, key)
        )
    if shared > 1:
        key, value = (
            t[:, :, None].expand(1, HEADS // shared, shared, TOKENS, deep).reshape(1, HEADS, TOKENS, deep)
            for t in (key, value)
        )
    mixed = F.scaled_dot_product_attention(query, key, value)
    return x + F.linear(mixed.transpose(1, 2).reshape(1, TOKENS, WIDTH), o)


LAYERS = {
    "plain": {},
    "rotated": {"turned": True},
    "shared": {"shared": 2},
    "rotated and shared": {"turned": True, "shared": 2},
    "biased": {"bias": 0.5},
}


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(n, marks=pytest.mark.long if n not in ("plain", "rotated and shared") else ())
        for n in LAYERS
    ],
)
def test_attention_stays_one_pass_between_products_in_panels(form):
    options = LAYERS[form]
    narrow = WIDTH // options.get("shared", 1)

    def layers(x, *weights):
        for at in range(0, len(weights), 4):
            x = attention(F.layer_norm(x, (WIDTH,)), *weights[at : at + 4], **options)
        return x

    one = [(WIDTH, WIDTH), (narrow, WIDTH), (narrow, WIDTH), (WIDTH, WIDTH)]
    count = 2 if form == "plain" else 1
    graph = weighed(layers, [(1, TOKENS, WIDTH)], count * one)
    state = in_panels(State(graph, graph), ACTIONS, Faults(pytest.fail))
    assert [name for name, _ in state.steps][:1] == ["online"] and "pack" in dict(state.steps)
    forms = [p.tiling.form for p in products(state.program.steps)]
    assert forms.count("online") == count and forms.count("packed") >= 2 * count and "loops" not in forms
    assert not state.program.natives
    inputs = drawn(graph)
    (got,), (wanted,) = run_program(state.program, dict(enumerate(inputs))), interpret(graph, inputs)
    assert torch.allclose(got, wanted.flatten().reshape(got.shape), rtol=1e-5, atol=1e-5)


def test_a_convolution_keeps_its_panels_beside_products_whose_rows_are_chosen():
    def layers(x, taps, w):
        return F.linear(F.conv2d(x, taps, padding=1).flatten(2).transpose(1, 2), w)

    graph = weighed(layers, [(1, 4, 8, 8)], [(16, 4, 3, 3), (32, 16)])
    state = in_panels(State(graph, graph), ACTIONS, Faults(pytest.fail))
    before = {p.tiling.form: p.tiling.rows for p in products(state.program.steps)}
    after = laid_out(state.decisions, {"rows": 6, "held": 48}).tilings
    assert before["convolve"] > 0
    assert {t.form: t.rows for t in after.values()} == {"convolve": before["convolve"], "packed": 6}


def test_a_network_is_tried_with_all_in_panels_right_after_the_library():
    def layers(x, *weights):
        for w in weights:
            x = torch.tanh(F.linear(x, w)) * 0.5
        return x

    graph = weighed(layers, [(5, 32)], [(32, 32)] * 24)
    first, second = (leaf.state.steps[0][0] for leaf, _ in zip(leaves(graph), range(2), strict=False))
    assert (first, second) == ("library", "pack")


def test_several_products_have_a_first_schedule_before_anything_is_searched(monkeypatch):
    def layers(x, *weights):
        return reduce(lambda y, w: torch.relu(F.linear(y, w)), weights, x)

    two, one = (weighed(layers, [(5, 32)], [(32, 32)] * count) for count in (2, 1))
    everything = [leaf.state.steps for leaf in leaves(two)]
    assert len(everything) == len(set(everything)) and everything[0] == (("pack", "all"),)
    monkeypatch.setattr(_beam, "beam", lambda *_, **__: [])
    assert [leaf.state.steps for leaf in leaves(two)] == everything[:1]
    assert not list(leaves(one)), "one product is searched first"


def test_positions_and_equal_numbers_are_no_tables():
    numbers = torch.arange(3, 43, 2)

    def shifted(x):
        return x + numbers + torch.full((20,), 7)

    graph = weighed(shifted, [(2, 20)], [])
    assert any(isinstance(n, Ramp) for n in graph.nodes) and not graph.natives
    inputs = drawn(graph)
    (got,) = interpret(graph, inputs)
    assert torch.equal(got.reshape(2, 20), shifted(inputs[0].double()))


def test_the_image_of_a_strided_convolution_is_stored_and_not_its_windows():
    def layers(x, first, second, shortcut, third, scale):
        x = F.max_pool2d(x, 3, 1, 1)
        for _ in range(2):
            x = F.relu(F.conv2d(x, first, padding=1) * scale[:, None, None] + x)
        short = F.conv2d(x, shortcut, stride=2)
        return F.relu(F.conv2d(F.relu(F.conv2d(x, second, stride=2, padding=1)), third, padding=1) + short)

    weights = [(4, 4, 3, 3), (4, 4, 3, 3), (4, 4, 1, 1), (4, 4, 3, 3), (4,)]
    graph = weighed(layers, [(1, 4, 6, 6)], weights)
    state = in_panels(State(graph, graph), ACTIONS, Faults(pytest.fail))
    assert {p.tiling.form for p in products(state.program.steps)} == {"convolve"}
    assert not [b.name for b in state.program.buffers if "window" in b.name]
    inputs = drawn(graph)
    (got,), (wanted,) = run_program(state.program, dict(enumerate(inputs))), interpret(graph, inputs)
    assert torch.allclose(got, wanted.flatten().reshape(got.shape), rtol=1e-4, atol=1e-4)
