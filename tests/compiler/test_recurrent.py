"""Recurrent layers in graph form: what they mean in float64 is what their equations say."""

import pytest
import torch

from kernelwright.compiler.graph import Native, Recurrent, from_captured, interpret
from kernelwright.compiler.lower import lower
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks.capture import record_function

LAYERS = {
    "lstm": lambda: torch.nn.LSTM(3, 4),
    "lstm, projected, both ways": lambda: torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2),
    "gru, both ways, batch first": lambda: torch.nn.GRU(3, 4, 2, bidirectional=True, batch_first=True),
    "gru without biases": lambda: torch.nn.GRU(3, 4, 2, bias=False),
    "rnn": lambda: torch.nn.RNN(3, 4, batch_first=True),
    "rnn, relu": lambda: torch.nn.RNN(3, 4, nonlinearity="relu", bidirectional=True),
}


def step(kind, x, h, c, w, u, b, v, p):
    """Return the state and the cell after one step, from the equations in torch's documentation."""
    one, two = x @ w.T + b, h @ u.T + v
    if kind == "LSTM":
        i, f, g, o = (one + two).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h if p is None else h @ p.T), c
    if kind == "GRU":
        (r, z, n), (hr, hz, hn) = one.chunk(3, -1), two.chunk(3, -1)
        r, z = (r + hr).sigmoid(), (z + hz).sigmoid()
        return (1 - z) * (n + r * hn).tanh() + z * h, c
    return (one + two).tanh() if kind == "RNN_TANH" else (one + two).relu(), c


def unrolled(layer, x, first):
    """Return every step's state, the last states and, of an LSTM, the last cells."""
    first = [s.double() for s in (first if isinstance(first, tuple) else (first, first))]
    weights = {name: weight.double() for name, weight in layer.named_parameters()}
    rows, last, cells = x.double().transpose(0, 1) if layer.batch_first else x.double(), [], []
    ways = ("", "_reverse") if layer.bidirectional else ("",)
    for depth in range(layer.num_layers):
        sides = []
        for way in ways:
            at = f"_l{depth}{way}"
            w, u, p = (weights.get(f"weight_{name}{at}") for name in ("ih", "hh", "hr"))
            b, v = (weights.get(f"bias_{name}{at}", 0.0) for name in ("ih", "hh"))
            h, c = (s[len(last)] for s in first)
            made = []
            for now in reversed(rows) if way else rows:
                h, c = step(layer.mode, now, h, c, w, u, b, v, p)
                made.append(h)
            sides.append(torch.stack(made[::-1] if way else made))
            last.append(h)
            cells.append(c)
        rows = torch.cat(sides, -1)
    found = [rows.transpose(0, 1) if layer.batch_first else rows, torch.stack(last)]
    return [*found, torch.stack(cells)] if layer.mode == "LSTM" else found


class Called(torch.nn.Module):
    """A layer that takes its first states one by one and returns all it has in a row."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *first):
        state = (first if len(first) > 1 else first[0]) if first else None
        rows, last = self.layer(x, state)
        return (rows, *(last if isinstance(last, tuple) else (last,)))


def read_layer(layer, given):
    """Return the graph of a layer, and its inputs: the argument, the first states where given, the weights."""
    called = Called(layer)
    weights = dict(called.named_parameters())
    arguments = {f"x{i}": value for i, value in enumerate(given)}
    specs, state = (
        tuple(TensorSpec(name=name, shape=tuple(t.shape), dtype="float32") for name, t in named.items())
        for named in (arguments, weights)
    )
    workload = Workload(name="w", arguments=specs, state=state)
    captured = record_function(called, workload, given)
    return from_captured(captured, workload), [*given, *weights.values()]


@pytest.mark.parametrize("is_given", [False, True], ids=["zero", "given"])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
@torch.no_grad()
def test_a_layer_means_what_its_equations_say(name, is_given):
    torch.manual_seed(0)
    layer, x = LAYERS[name](), torch.randn(5, 6, 3)
    count = layer.num_layers * (1 + layer.bidirectional)
    batch, out = x.shape[0 if layer.batch_first else 1], layer.proj_size or 4
    sizes = (out, 4) if layer.mode == "LSTM" else (out,)
    draw = torch.randn if is_given else torch.zeros
    first = tuple(draw(count, batch, size) for size in sizes)
    graph, inputs = read_layer(layer, [x, *(first if is_given else ())])
    kinds = {type(node) for node in graph.nodes if isinstance(node, Native)}
    assert kinds == {Recurrent} and len(lower(graph).natives) > 0
    wanted = unrolled(layer, x, first if len(first) > 1 else first[0])
    found = interpret(graph, inputs)
    assert len(found) == len(wanted)
    for now, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(now, right, rtol=1e-12, atol=1e-12)
