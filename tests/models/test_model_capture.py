"""Graphs of models: exported whole, or in pieces that are named; what odd models become."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kernelwright.models import _look as looking
from kernelwright.models import capture_model, load_model
from kernelwright.models._native import native_us
from kernelwright.models._regions import regions_of
from kernelwright.models._timing import untimed


def captured(module, *inputs, **named):
    return capture_model(load_model(module, (tuple(inputs), named) if named else tuple(inputs)))


def test_a_model_is_one_graph_with_its_weights_by_name(small):
    found = capture_model(load_model(small))
    piece = found.whole
    assert piece is not None and found.breaks == ()
    assert set(piece.weights.values()) == set(load_model(small).whole.state_dict())
    assert ("norms.1",) in set(piece.paths.values()) and piece.kinds["norms.1"] == "Norm"


def test_complex_numbers_and_recurrent_layers_are_torchs_in_one_program_too():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(4, 4)

        def forward(self, x):
            return self.layer(torch.fft.irfft(torch.fft.rfft(x) * 2, n=4))[0].sigmoid() + 1

    found = captured(Mixed(), torch.ones(3, 2, 4))
    (piece,) = found.pieces
    each = replace(untimed(piece), nodes_us={node.name: 1.0 for node in piece.nodes})
    assert native_us(found, {piece.name: each}) == 4, "the two transforms, what is between them, the layer"


def test_nothing_is_expected_of_what_torch_computes_within_a_kernel_of_a_region_too(monkeypatch):
    class Filter(nn.Module):
        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(x) * 2, n=4).sigmoid() * 2 + 1

    class Filters(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Filter(), Filter()

        def forward(self, x):
            return self.second(self.first(x))

    (piece,) = captured(Filters(), torch.ones(3, 4)).pieces
    each = replace(untimed(piece), nodes_us={node.name: 1.0 for node in piece.nodes}, whole_us=12.0)
    free = SimpleNamespace(attainable_us=0.0, limit="")
    monkeypatch.setattr(looking, "trace", lambda *_: None)
    monkeypatch.setattr(looking, "bound", lambda *_, **__: free)
    monkeypatch.setattr(looking, "reached_us", lambda *_: 0.0)
    look = looking.Look(piece, each, None, None, None, None)
    region = next(r for r in regions_of(piece).regions if r.label == "first")
    row = look.at(region)
    assert row.time_us == 12 and row.uses == 2
    assert row.gain.expected == pytest.approx(6 * looking.CLOSED[1]), (
        "two transforms and what is between stay"
    )
    assert look.also(row, region).gain.expected == pytest.approx(12 * looking.CLOSED[1])


def test_control_flow_on_values_breaks_the_graph_and_the_rest_is_still_captured(capfd):
    class Branching(nn.Module):
        def forward(self, x):
            x = torch.relu(x) * 2
            if x.sum() > 0:
                x = torch.sigmoid(x) + 1
            return x

    found = captured(Branching(), torch.ones(4, 4))
    assert capfd.readouterr() == ("", "")
    assert found.whole is None and len(found.pieces) == 2
    assert any("test_model_capture.py" in line for line in found.breaks)
    assert "aten.relu.default" in {str(n.target) for n in found.pieces[0].nodes}
    assert "aten.sigmoid.default" in {str(n.target) for n in found.pieces[1].nodes}


def test_quantised_tensors_inside_are_looked_at_by_their_values():
    class Quantised(nn.Module):
        def forward(self, x):
            return torch.quantize_per_tensor(x, 0.5, 0, torch.qint8).dequantize()

    piece = captured(Quantised(), torch.ones(4, 4)).whole
    assert {(fact.dtype, fact.high) for fact in untimed(piece).facts.values()} == {
        (torch.float32, 1.0),
        (torch.qint8, 1.0),
    }


def test_sizes_that_depend_on_values_are_named_and_no_error():
    class Selecting(nn.Module):
        def forward(self, x):
            return torch.relu(x)[x > 0]

    found = captured(Selecting(), torch.randn(16))
    assert found.whole is None and found.breaks


def test_a_buffer_that_a_call_changes_is_a_mutation():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    module = Counting()
    found = captured(module, torch.ones(2)).whole
    assert [found.weights[old] for old, _ in found.mutations] == ["inner.calls"]
    assert module.calls.item() == 0.0


def test_tied_weights_keep_their_names_and_share_their_values():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            return self.head(self.embedding(tokens))

    found = captured(Tied(), torch.tensor([[1, 2]])).whole
    assert set(found.weights.values()) == {"inner.embedding.weight", "inner.head.weight"}
    assert len({found.values[node].data_ptr() for node in found.weights}) == 1


def test_inputs_by_name_and_results_in_a_dataclass_are_flattened():
    @dataclass
    class Result:
        logits: torch.Tensor
        loss: torch.Tensor | None = None

    class Named(nn.Module):
        def forward(self, x, mask=None):
            return Result(x.relu(), (x * mask).sum())

    found = captured(Named(), torch.ones(2), mask=torch.zeros(2)).whole
    assert len(found.inputs) == 2 and len(found.outputs) == 2


def test_what_is_the_same_in_every_call_is_known():
    class Table(nn.Module):
        def forward(self, x):
            return x * torch.arange(4).float().cos()

    found = captured(Table(), torch.ones(4)).whole
    assert {"cos"} <= found.folded and "mul" not in found.folded
