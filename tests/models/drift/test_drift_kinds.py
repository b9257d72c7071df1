"""Models of complex numbers and of LSTMs are judged: planted drifts are found, other honest forms are the same."""

import copy

import pytest
import torch
from torch import nn

from kernelwright.models.drift import Outcome, drift_of_calls

_FEATURES, _MODES, _STEPS = 6, 3, 7


class Spectral(nn.Module):
    """A layer of a Fourier neural operator, its weight complex."""

    def __init__(self):
        super().__init__()
        weight = torch.randn(_FEATURES, _FEATURES, _MODES, dtype=torch.complex64) / _FEATURES
        self.weight, self.past, self.norm = nn.Parameter(weight), nn.Linear(_FEATURES, _FEATURES), "backward"

    def mixed(self, x):
        spectrum = torch.fft.rfft(x, dim=1, norm=self.norm)
        kept = torch.zeros_like(spectrum)
        kept[:, :_MODES] = torch.einsum("bki,iok->bko", spectrum[:, :_MODES], self.weight)
        return kept

    def forward(self, x):
        return nn.functional.gelu(torch.fft.irfft(self.mixed(x), n=x.shape[1], dim=1) + self.past(x))


class Recurrent(nn.Module):
    """Two layers of an LSTM, the second one in both directions, and a head."""

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(_FEATURES, 8, batch_first=True)
        self.second = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.second(self.first(x)[0])[0])


class Steps(nn.Module):
    """An LSTM in one direction, written out: what a kernel of it computes."""

    def __init__(self, lstm, *, order=(0, 1, 2, 3), first_cell=0.0, sigmoid=torch.sigmoid):
        super().__init__()
        self.lstm, self.order, self.first_cell, self.sigmoid = lstm, order, first_cell, sigmoid

    def forward(self, x):
        lstm, states = self.lstm, []
        h = x.new_zeros(len(x), lstm.hidden_size)
        c = torch.full_like(h, self.first_cell)
        for row in x.unbind(1):
            gates = torch.cat((row, h), -1) @ torch.cat((lstm.weight_ih_l0, lstm.weight_hh_l0), -1).T
            parts = (gates + (lstm.bias_ih_l0 + lstm.bias_hh_l0)).chunk(4, -1)
            i, f, g, o = (parts[n] for n in self.order)
            c = self.sigmoid(f) * c + self.sigmoid(i) * torch.tanh(g)
            h = self.sigmoid(o) * torch.tanh(c)
            states.append(h)
        return torch.stack(states, 1), (h, c)


def conjugated(model):
    model.weight.data = model.weight.data.conj().resolve_conj()


def mode_dropped(model):
    model.weight.data[..., -1] = 0


def orthonormal(model):
    model.norm = "ortho"


def weight_in_half(model):
    parts = torch.view_as_real(model.weight.data)
    model.weight.data = torch.view_as_complex(parts.bfloat16().float())


def product_by_parts(model):
    class Parts(Spectral):
        def mixed(self, x):
            spectrum, w = torch.fft.rfft(x, dim=1), self.weight
            part = spectrum[:, :_MODES]
            real = torch.einsum("bki,iok->bko", part.real, w.real) - torch.einsum(
                "bki,iok->bko", part.imag, w.imag
            )
            imag = torch.einsum("bki,iok->bko", part.real, w.imag) + torch.einsum(
                "bki,iok->bko", part.imag, w.real
            )
            rest = spectrum.shape[1] - _MODES
            return nn.functional.pad(torch.complex(real, imag), (0, 0, 0, rest))

    model.__class__ = Parts


def transform_as_a_product(model):
    class Product(Spectral):
        def mixed(self, x):
            n, count = x.shape[1], x.shape[1] // 2 + 1
            angle = torch.outer(torch.arange(count), torch.arange(n)) * (-2 * torch.pi / n)
            spectrum = torch.polar(torch.ones_like(angle), angle).to(self.weight.dtype) @ x.to(
                self.weight.dtype
            )
            kept = torch.zeros_like(spectrum)
            kept[:, :_MODES] = torch.einsum("bki,iok->bko", spectrum[:, :_MODES], self.weight)
            return kept

    model.__class__ = Product


def gates_exchanged(model):
    model.first = Steps(model.first, order=(0, 1, 3, 2))


def cell_not_cleared(model):
    model.first = Steps(model.first, first_cell=1e-3)


def hard_sigmoid(model):
    model.first = Steps(model.first, sigmoid=nn.functional.hardsigmoid)


def backward_direction_missing(model):
    model.second.weight_hh_l0_reverse.data.zero_()


def recurrent_bias_missing(model):
    model.second.bias_hh_l0.data.zero_()


def written_out(model):
    model.first = Steps(model.first)


def sigmoid_by_tanh(model):
    model.first = Steps(model.first, sigmoid=lambda x: 0.5 * torch.tanh(0.5 * x) + 0.5)


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    inputs = [(torch.randn(2, _STEPS, _FEATURES),) for _ in range(3)]
    return {kind: kind().eval() for kind in (Spectral, Recurrent)}, inputs


def compared(models, kind, change):
    made, inputs = models
    other = copy.deepcopy(made[kind])
    change(other)
    return drift_of_calls(made[kind], other, inputs, draws=8)


@pytest.mark.parametrize(
    ("kind", "change"),
    [(Spectral, change) for change in (conjugated, mode_dropped, orthonormal, weight_in_half)]
    + [(Recurrent, change) for change in (gates_exchanged, cell_not_cleared)]
    + [pytest.param(Recurrent, change, marks=pytest.mark.long) for change in (hard_sigmoid,
                                          backward_direction_missing, recurrent_bias_missing)],
)  # fmt: skip
def test_planted_drifts_are_found(models, kind, change):
    assert compared(models, kind, change).outcome is Outcome.DRIFTED


@pytest.mark.parametrize(
    ("kind", "change"),
    [(Spectral, change) for change in (lambda _: None, product_by_parts, transform_as_a_product)]
    + [(Recurrent, change) for change in (lambda _: None, written_out, sigmoid_by_tanh)],
)  # fmt: skip
def test_other_honest_forms_are_the_same(models, kind, change):
    found = compared(models, kind, change)
    assert found.outcome is Outcome.SAME, found.reason


def test_answers_of_complex_numbers_are_compared():
    torch.manual_seed(0)
    layer = nn.Linear(6, 4, dtype=torch.complex64)
    other, inputs = copy.deepcopy(layer), [(torch.randn(5, 6, dtype=torch.complex64),)]
    assert drift_of_calls(layer, other, inputs, draws=6).outcome is Outcome.SAME
    other.bias.data = other.bias.data.conj().resolve_conj()
    assert drift_of_calls(layer, other, inputs, draws=6).outcome is Outcome.DRIFTED
