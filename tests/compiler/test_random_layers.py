"""Random layers over weights: products of every kind, chains behind them, and every action on weights that is legal."""

import random
from collections import Counter

import torch
from tests.compiler.test_actions import BY_NAME
from tests.compiler.test_weights import drawn, weighed
from torch.nn import functional as F

from kernelwright.compiler.actions import State, taken
from kernelwright.compiler.graph import interpret
from kernelwright.compiler.lower import lower
from kernelwright.compiler.tile import run_program

NAMES = ("fold", "pack", "ahead")


def product(chance):
    """Return a product, the shape of its argument and of its weights, and its channels' place from the end."""
    size, out = chance.randint(1, 6), chance.choice([3, 6, 16, 32])
    if chance.random() < 0.5:
        turned = chance.random() < 0.5
        shape = (out, size) if turned else (size, out)
        return (F.linear if turned else torch.matmul), (chance.randint(1, 4), size), shape, out, ()
    groups, kernel = chance.choice([1, 1, 2]), chance.choice([1, 2, 3])
    out, each = 2 * chance.randint(1, 3), chance.randint(1, 2)
    stride, padding, dilation = chance.choice([1, 2]), chance.randint(0, 2), chance.choice([1, 2])
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (
        lambda x, w: F.conv2d(x, w, **how), (1, each * groups, 5, 6), (out, each, kernel, kernel), out, (1, 1),
    )  # fmt: skip


CHAIN = (
    lambda y, w: y * w, lambda y, w: y + w, lambda y, w: w - y, lambda y, w: y / (w + 1.0), lambda y, w: -y,
    lambda y, w: y * 0.5, lambda y, w: y - 2.0, lambda y, w: y / 4.0 * torch.sqrt(w),
)  # fmt: skip


def layer(seed):
    """Return a function, the shapes of its arguments and of its weights."""
    chance = random.Random(seed)
    multiply, argument, weights, out, after = product(chance)
    steps = chance.choices(CHAIN, k=chance.randint(1, 4))
    last = chance.choice([torch.relu, torch.tanh, lambda y: y.sum(-1)])

    def function(x, w, *more):
        y = multiply(x, w)
        for step, m in zip(steps, more, strict=True):
            y = step(y, m)
        return last(y)

    return function, [argument], [weights, *((out, *after) for _ in steps)]


def test_random_layers_mean_the_same_under_every_action_on_weights():
    hits = Counter()
    for seed in range(40):
        graph = weighed(*layer(seed))
        state = State(graph, graph)
        for name in random.Random(seed).sample(NAMES, 3):
            for site in list(BY_NAME[name].sites(state))[:1]:
                state = taken(state, BY_NAME[name], site)
                hits[name] += 1
        inputs = drawn(graph)
        (wanted,), (now,) = interpret(graph, inputs), interpret(state.graph, inputs)
        assert torch.allclose(now, wanted, rtol=1e-8, atol=1e-8), f"seed {seed}: {state.text}"
        program = lower(state.graph, state.decisions)
        assert bool(program.ahead) == bool(state.steps), f"seed {seed}"
        if seed < 8:
            (got,) = run_program(program, dict(enumerate(inputs)))
            assert torch.allclose(got, wanted, rtol=1e-4, atol=1e-4), f"seed {seed}: {state.text}"
    assert all(hits[name] >= 8 for name in NAMES), hits
