"""A large reduction that several kernels need is computed by the first of them."""

from collections import Counter

import torch
import torch.nn.functional as F
from tests.compiler.test_actions import graph_of

from kernelwright.compiler.graph import interpret
from kernelwright.compiler.lower import _lower, lower
from kernelwright.compiler.policy import estimate
from kernelwright.compiler.tile import Begin, Kernel, run_program, statements


def trained(x, mean, variance):
    """Batch norm in training: its statistics normalise, and are folded into the running ones."""
    out = torch.ops.aten._native_batch_norm_legit_functional(x, None, None, mean, variance, True, 0.1, 1e-5)
    return F.relu(out[0]), out[3], out[4]


def begun(program):
    kernels = [step for step in program.steps if isinstance(step, Kernel)]
    return Counter(n for k in kernels for n in {s.name for s in statements(k.body) if isinstance(s, Begin)})


def test_statistics_of_a_batch_are_computed_once(monkeypatch):
    graph = graph_of(trained, (3, 8, 5, 7), (8,), (8,))
    program = lower(graph)
    assert set(begun(program).values()) == {1} and len(begun(program)) == 2
    inputs = [torch.randn(3, 8, 5, 7), torch.randn(8), torch.rand(8)]
    for got, wanted, native in zip(
        run_program(program, dict(enumerate(inputs))), interpret(graph, inputs), trained(*inputs), strict=True
    ):
        assert torch.allclose(got.float().reshape(native.shape), native, rtol=1e-5, atol=1e-6)
        assert torch.allclose(wanted.float().reshape(native.shape), native, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(_lower, "repeated", lambda steps, nodes: set())
    again = lower(graph)
    assert set(begun(again).values()) == {2}
    assert estimate(program).memory_bytes < estimate(again).memory_bytes


def test_a_small_reduction_is_computed_where_it_is_used(monkeypatch):
    """Two samples of one pixel take less than a round through memory."""
    graph = graph_of(trained, (2, 8, 1, 1), (8,), (8,))
    known = lower(graph)
    monkeypatch.setattr(_lower, "repeated", lambda steps, nodes: set())
    assert begun(lower(graph)) == begun(known) and max(begun(known).values()) == 2


def test_a_variance_without_bias_takes_no_pass_of_its_own():
    program = lower(graph_of(trained, (3, 8, 5, 7), (8,), (8,)))
    monoids = [s.monoid for k in program.steps for s in statements(k.body) if isinstance(s, Begin)]
    assert sorted(monoids) == ["sum", "variance"]


def test_one_value_per_channel_has_a_variance_without_bias_that_is_not_a_number():
    """As torch says: none over no degrees of freedom."""
    graph = graph_of(trained, (1, 8, 1, 1), (8,), (8,))
    inputs = [torch.randn(1, 8, 1, 1), torch.randn(8), torch.rand(8)]
    got = run_program(lower(graph), dict(enumerate(inputs)))[2].flatten()
    assert got.isnan().all() and interpret(graph, inputs)[2].isnan().all()
