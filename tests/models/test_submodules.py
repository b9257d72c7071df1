"""Kernels in the place of whole submodules: only where these are pure, and only while they are as they were."""

import math

import pytest
import torch
from torch import nn

from kernelwright.models.pieces import Pieces, Region, RegionForm, captured_program, form_of_part, printed
from kernelwright.models.pieces import _model as serving
from kernelwright.tasks.capture import quiet

MARK, SEEN, TELL = 100.0, [], print


class Gate(nn.Module):
    """A submodule that is a region; some subclasses are no pure functions."""

    def __init__(self):
        super().__init__()
        self.weight, self.slope = nn.Parameter(torch.ones(8)), 2.0

    def forward(self, x):
        return torch.tanh(x * self.weight) * self.slope


class Counting(Gate):
    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(x)


class Noting(Gate):
    def forward(self, x):
        SEEN.append(1)
        return torch.tanh(x * self.weight) * 2.0


class Telling(Gate):
    def forward(self, x):
        TELL(end="")
        return torch.tanh(x * self.weight) * 2.0


class Listing(Gate):
    def __init__(self):
        super().__init__()
        self.slopes = [2.0]

    def forward(self, x):
        return torch.tanh(x * self.weight) * self.slopes[0]


class Indirect(Gate):
    def scaled(self, x):
        return x * self.weight

    def forward(self, x):
        return torch.tanh(self.scaled(x)) * math.sqrt(4.0)


class IndirectlyNoting(Indirect):
    def scaled(self, x):
        SEEN.append(1)
        return x * self.weight


class Branching(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.gates = nn.ModuleList(kind() for _ in range(2))

    def forward(self, x):
        x = self.gates[0](x)
        return self.gates[1](x) if x.sum() > 0 else x - 1


def region_of(kind):
    """Return the region of a gate, with a kernel that adds a mark and declines sevens."""

    def kernel(*tensors):
        given, weight = (t if t.dim() == size else next(o for o in tensors if o.dim() == size) for t, size in
                         zip(tensors, (2, 1), strict=True))  # fmt: skip
        if (given == 7).all():
            raise NotImplementedError("Unsupported: sevens")
        return torch.tanh(given * weight) * 2.0 + MARK

    class Whole(nn.Module):
        def forward(self, x, weight):
            return torch.func.functional_call(kind(), {"weight": weight}, (x,))

    with quiet():
        capture = captured_program("gate", Whole(), (torch.ones(4, 8), torch.ones(8)))
    form = form_of_part(printed(capture, 0, len(capture.nodes)))
    shapes = {0: (4, 8), 1: (8,)}
    arguments = tuple((name, shapes[n], "float32") for n, name in enumerate(form.sources))
    return Region(
        RegionForm(form.key, form.sources, form.operators), arguments, (((4, 8), "float32"),), lambda: kernel
    )


@pytest.fixture
def served(monkeypatch):
    """Make a model with kernels, and say whether Dynamo finds its pieces."""

    def make(kind):
        found = []
        monkeypatch.setattr(serving.torch, "compile", lambda forward, **_: found.append(1) or forward)
        model = Branching(kind)
        pieces = Pieces(
            model, ("gates.0.weight", "gates.1.weight"), (((4, 8), "float32"),), [region_of(kind)]
        )
        return model, pieces, bool(found)

    return make


X, ONES = torch.ones(4, 8), [torch.ones(8), torch.ones(8)]


def marked(x):
    return torch.tanh(x) * 2.0 + MARK


@pytest.mark.parametrize("kind", [Gate, Indirect])
def test_kernels_serve_submodules_in_every_branch_without_dynamo(served, kind):
    _, pieces, by_dynamo = served(kind)
    assert not by_dynamo
    torch.testing.assert_close(pieces(X, *ONES), marked(marked(X)))
    (
        torch.testing.assert_close(pieces(X, ONES[0], 0 * ONES[1]), marked(0 * X)),
        "weights are those of the call",
    )


@pytest.mark.parametrize("kind", [Counting, Noting, Telling, Listing, IndirectlyNoting])
def test_what_is_no_function_of_its_inputs_is_left_to_dynamo(served, kind):
    model, pieces, by_dynamo = served(kind)
    assert by_dynamo and not any("forward" in vars(m) for m in model.modules()), "the model is as it was"
    torch.testing.assert_close(pieces(X, *ONES), torch.tanh(torch.tanh(X) * 2.0) * 2.0)


def test_a_submodule_that_changed_runs_its_own_code(served):
    model, pieces, _ = served(Gate)
    model.gates[1].slope = 3.0
    torch.testing.assert_close(pieces(X, *ONES), torch.tanh(marked(X)) * 3.0)
    model.gates[1].slope = 2.0
    hook = model.gates[0].register_forward_hook(lambda *_: None)
    torch.testing.assert_close(pieces(X, *ONES), marked(torch.tanh(X) * 2.0))
    hook.remove()
    model.gates[0].more = nn.Linear(1, 1)
    torch.testing.assert_close(pieces(X, *ONES), marked(torch.tanh(X) * 2.0))


def test_a_kernel_that_declines_and_autocast_are_left_to_torch(served):
    _, pieces, _ = served(Gate)
    sevens = torch.full((4, 8), 7.0)
    torch.testing.assert_close(pieces(sevens, *ONES), marked(torch.tanh(sevens) * 2.0))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(pieces(X, *ONES), torch.tanh(torch.tanh(X) * 2.0) * 2.0)
