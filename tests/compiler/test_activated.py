"""The library's convolution with an activation: where it is legal, and that it is right, folded weights included."""

import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_folding import CASES, start_of
from tests.compiler.test_weights import drawn, loaded
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import beam, estimate
from kernelwright.languages.prepared import prepared

IMAGE, FILTERS = (1, 2, 5, 6), (4, 2, 3, 3)


def sites(function, *shapes):
    graph = graph_of(function, *(shapes or (IMAGE, FILTERS)))
    return list(BY_NAME["activated"].sites(State(graph, graph)))


def test_activations_that_the_library_fuses():
    for activation in (F.sigmoid, F.tanh, F.gelu, F.silu, F.leaky_relu):
        assert sites(lambda x, w, f=activation: f(F.conv2d(x, w))) == ["convolution"], activation


def test_what_the_library_does_not_fuse():
    assert not sites(lambda x, w: F.conv2d(x, w).relu()), "it makes zero of what is not a number"
    assert not sites(lambda x, w: F.conv2d(x, w).exp())
    assert not sites(lambda x, w: (lambda y: y.tanh() + y.sum())(F.conv2d(x, w)))
    assert not sites(lambda x, w: (lambda y: (y, y.tanh()))(F.conv2d(x, w)))
    assert not sites(lambda x, w: F.conv_transpose2d(x, w).tanh(), IMAGE, (2, 4, 3, 3))
    assert not sites(lambda x, w: F.conv1d(x, w).tanh(), (1, 2, 9), (4, 2, 3))


def test_convolution_norm_and_sigmoid_become_one_call_of_the_library():
    start = start_of("convolution")
    (site,) = BY_NAME["fold"].sites(start)
    state = taken(taken(start, BY_NAME["fold"], site), BY_NAME["activated"], "convolution_folded")
    program = lower(state.graph, state.decisions)
    assert [s.name for s in program.steps if s.name not in program.ahead] == ["convolution_folded_activated"]
    apart = taken(taken(start, BY_NAME["fold"], site), BY_NAME["library"], "convolution_folded")
    assert estimate(program).memory_bytes < estimate(lower(apart.graph, apart.decisions)).memory_bytes
    kernel = prepared(loaded(state), [f"w{i}" for i in range(5)])
    x, *held = drawn(state.origin)
    assert torch.allclose(kernel(x, *held), CASES["convolution"][0](x, *held), atol=1e-4)
    assert undone(state, state.steps[1], ACTIONS).text == state.text.partition(";")[0]


def test_what_is_not_a_number_stays_so():
    graph = graph_of(lambda x, w: F.leaky_relu(F.conv2d(x, w)), IMAGE, FILTERS)
    kernel = loaded(taken(State(graph, graph), BY_NAME["activated"], "convolution"))
    x, w = drawn(graph)
    x[0, 0, 2, 2] = float("nan")
    assert torch.equal(kernel(x, w).isnan(), F.conv2d(x, w).isnan())


def test_an_activation_with_options_is_passed_on():
    def function(x, w):
        y = F.leaky_relu(F.conv2d(x, w, stride=2, padding=1), 0.3)
        return F.gelu(F.conv2d(y, w[:, :1], groups=4), approximate="tanh")

    graph = graph_of(function, IMAGE, FILTERS)
    state = taken(State(graph, graph), BY_NAME["activated"], "all")
    assert len(lower(state.graph, state.decisions).natives) == 2
    kernel = loaded(state)
    x, w = drawn(graph)
    assert torch.allclose(kernel(x, w), function(x, w), atol=1e-4)


def test_the_estimate_prefers_it_to_the_library_alone_and_only_the_language_of_the_library_has_it():
    graph = graph_of(lambda x, w: torch.sigmoid(F.conv2d(x, w)), (8, 64, 64, 64), (64, 64, 3, 3))
    ranked = [one.state.text for one in beam(graph, depth=1, width=8)]
    assert ranked.index("activated(convolution)") < ranked.index("library(convolution)")
    assert "activated" not in [a.name for a in offered(("panels", "ahead"))]
