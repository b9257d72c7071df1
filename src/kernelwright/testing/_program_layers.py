"""Recurrent layers for random programs: the required inputs, and the call."""

import random

_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def recurrent_layer(chance: random.Random) -> tuple[list[str], str]:
    """Write a layer over whole sequences: an expression for each of its inputs, and one of its results.

    Covers: every kind, one layer or two, both ways, projections, no biases, batch first or steps, first states
    that are given or zero.
    Does not cover: packed sequences, dropout; dtypes other than float32.
    """
    kind = chance.choice(list(_GATES))
    batch, steps, width, hidden = (chance.randint(1, 5) for _ in range(4))
    layers, ways = chance.choice((1, 1, 2)), chance.choice((1, 2))
    batch_first, biased = chance.random() < 0.5, chance.random() < 0.7
    projected = kind == "lstm" and hidden > 1 and chance.random() < 0.4
    out, rows = hidden - projected, _GATES[kind] * hidden
    states = [(layers * ways, batch, n) for n in ((out, hidden) if kind == "lstm" else (out,))]
    weights: list[tuple[int, ...]] = []
    for depth in range(layers):
        read = ways * out if depth else width
        one = [(rows, read), (rows, out), *[(rows,)] * (2 * biased), *[(out, hidden)] * projected]
        weights += one * ways
    given = chance.random() < 0.5
    shapes = [(batch, steps, width) if batch_first else (steps, batch, width), *states * given, *weights]
    first = [f"x{1 + i}" if given else f"torch.zeros({shape})" for i, shape in enumerate(states)]
    names = [f"x{i}" for i in range(len(shapes) - len(weights), len(shapes))]
    state = f"({', '.join(first)})" if kind == "lstm" else first[0]
    how = f"{biased}, {layers}, 0.0, False, {ways == 2}, {batch_first}"
    call = f"torch.{kind}(x0, {state}, ({', '.join(names)}), {how})"
    result = chance.randrange(1 + len(states))
    return [f"torch.randn({shape}, generator=g)" for shape in shapes], f"{call}[{result}]"
