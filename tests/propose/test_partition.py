"""Training steps in two parts: what is kept differs, gradients do not; the loss head is found and left to a kernel."""

from pathlib import Path

import pytest
import torch
from torch._decomp import get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.models._peaks import peaks_of
from kernelwright.ops.loss import reference
from kernelwright.propose import Request
from kernelwright.propose._inductor._harvest import HarvestError
from kernelwright.propose._inductor._joint import joint_of, parted
from kernelwright.propose.partition import KEEPS, PartitionProposer
from kernelwright.records import BuildStatus
from kernelwright.tasks import Problem, load_task

aten = torch.ops.aten
TARGET = torch.tensor([[3, 1, -100, 7], [9, 2, 5, 0]])


def traced(loss_of, *tensors):
    """Return the graph of a loss and its gradients in the tensors; the last is its target."""

    def step(*given):
        leaves = [t.detach().requires_grad_() for t in given[:-1]]
        loss = loss_of(*leaves, given[-1])
        return loss.detach(), *torch.autograd.grad(loss, leaves)

    parts = get_decompositions((aten._log_softmax_backward_data,))
    graph = make_fx(step, tracing_mode="fake", decomposition_table=parts)(*tensors)
    for node in graph.graph.find_nodes(op="call_function", target=aten.detach.default):
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
    graph.recompile()
    return graph


def run(joint, parts, tensors):
    """Run both parts operator by operator, the head by its reference."""
    values = {"t": tensors, "f": parts.forward(*tensors)}
    pick = lambda names: [values[n[0]][int(n[2:-1])] for n in names]  # noqa: E731
    if joint.head:
        x, weight, target, *bias, share = pick(parts.asked)
        settings = (joint.head.ignored, 0.0, 0.0, 0.0)
        values["h"] = reference.gradients(x, weight, target, bias[0] if bias else None, *settings, share)
    values["b"] = parts.backward(*pick(parts.kept))
    return pick(parts.results)


def hidden(x, first, second):
    return F.gelu(F.gelu(x @ first) @ second)


def averaged(x, first, second, weight, bias, target):
    """A head with a bias, whose loss is scaled, next to another loss."""
    logits = F.linear(hidden(x, first, second), weight, bias)
    return 0.5 * F.cross_entropy(logits.flatten(0, 1), target.flatten()) + first.square().mean()


def shifted(x, first, second, weight, bias, target):
    """A head whose last rows of logits are left out."""
    logits = F.linear(hidden(x, first, second), weight)[:, :-1].contiguous()
    return F.cross_entropy(logits.view(-1, 11), target[:, 1:].flatten(), reduction="sum") + bias.sum()


def tensors_of(seed=0):
    draws = torch.Generator().manual_seed(seed)
    shapes = ((2, 4, 16), (16, 16), (16, 16), (11, 16), (11,))
    return [*(torch.randn(s, generator=draws) for s in shapes), TARGET]


@pytest.mark.parametrize("loss_of", [averaged, pytest.param(shifted, marks=pytest.mark.long)])
@pytest.mark.parametrize("head", [False, True], ids=["logits", "head"])
def test_every_partition_has_the_gradients_of_the_step_and_keeps_what_it_says(loss_of, head):
    given = tensors_of()
    graph = traced(loss_of, *given)
    want, others = graph(*given), graph(*tensors_of(1))
    joint, kept = joint_of(graph, given, head=head), {}
    assert (joint.head is not None) == head
    for keeps in KEEPS:
        parts = parted(joint, keeps)
        for tensors, right in ((given, want), (tensors_of(1), others)):
            for one, other in zip(run(joint, parts, tensors), right, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()))
        held = parts.forward(*given)
        kept[keeps] = sum(held[int(n[2:-1])].nbytes for n in parts.kept if n[0] == "f")
        logits = {(8, 11), (6, 11), (2, 4, 11), (2, 3, 11)}.intersection(computed(parts))
        assert head != bool(logits), keeps
    assert kept["inputs"] == 0 < kept["half"] < kept["min-cut"] and kept["default"] < kept["everything"]


def computed(parts):
    """Yield the shapes of what both parts compute."""
    for node in (*parts.forward.graph.nodes, *parts.backward.graph.nodes):
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor):
            yield tuple(node.meta["val"].shape)


def read_twice(x, first, second, weight, bias, target):
    logits = F.linear(hidden(x, first, second), weight, bias)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten()) + 1e-3 * logits.square().mean()


def smoothed(x, first, second, weight, bias, target):
    logits = F.linear(hidden(x, first, second), weight, bias)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=0.1)


def capped(x, first, second, weight, bias, target):
    logits = 3.0 * torch.tanh(F.linear(hidden(x, first, second), weight, bias) / 3.0)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def squared(x, first, second, weight, bias, target):
    logits = F.linear(hidden(x, first, second), weight, bias)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten()).square()


def weighted(x, first, second, weight, bias, target):
    logits = F.linear(hidden(x, first, second), weight, bias)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), weight=bias.detach().abs())


@pytest.mark.parametrize(
    "loss_of",
    [read_twice, *(pytest.param(f, marks=pytest.mark.long) for f in (smoothed, capped, squared, weighted))],
)
def test_another_head_stays_in_the_graph(loss_of):
    given = tensors_of()
    with pytest.raises(HarvestError, match="no loss head: "):
        joint_of(traced(loss_of, *given), given, head=True)


def test_rows_that_are_all_ignored_have_no_loss_and_no_gradient():
    given = [*tensors_of()[:-1], torch.full_like(TARGET, -100)]
    graph = traced(averaged, *given)
    want, joint = graph(*given), joint_of(graph, given, head=True)
    found = run(joint, parted(joint, "min-cut"), given)
    assert torch.isnan(found[0]) and torch.isnan(want[0])
    for one, other in zip(found[1:], want[1:], strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_no_training_step_is_not_parted():
    graph = make_fx(lambda x: (x.exp(), x.sum()), tracing_mode="fake")(torch.ones(3))
    with pytest.raises(HarvestError, match="no loss whose gradient"):
        joint_of(graph, [torch.ones(3)], head=False)


STEP = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, target, weight):
        h = torch.tanh(x)
        p = torch.ops.aten._log_softmax.default(h @ torch.ops.aten.t.default(weight), 1, False)
        found = torch.ops.aten.nll_loss_forward.default(p, target, None, 1, -100)
        seed = torch.ops.aten.ones_like.default(found[0])
        g = torch.ops.aten.nll_loss_backward.default(seed, p, target, None, 1, -100, found[1])
        d = g - p.exp() * g.sum([1], True)
        return found[0], torch.ops.aten.mm.default(torch.ops.aten.t.default(d), h), (d @ weight) * (1 - h * h)

def get_inputs():
    return [torch.randn(40, 16), torch.randint(0, 90, (40,)), torch.randn(90, 16)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def proposed(tmp_path_factory):
    path = tmp_path_factory.mktemp("step") / "step.py"
    path.write_text(STEP)
    problem = Problem(load_task(str(path)))
    request = Request(problem, detect("cpu"), (), ("cpp", "torch"))
    return problem, list(PartitionProposer().propose(request))


@pytest.mark.long
@pytest.mark.needs("C++ compiler")
def test_candidates_stand_alone_and_are_right(proposed):
    problem, candidates = proposed
    workload = problem.task.workloads[0]
    inputs = problem.inputs(workload, 5)
    want = problem.reference(workload, {})(*inputs)
    assert (
        any("the loss head by one kernel" in one.reason for one in candidates)
        and len({one.key for one in candidates}) >= 4
    )
    for candidate in candidates:
        language = get_language(candidate.language)
        build = language.build(candidate)
        assert build.status is BuildStatus.OK, build.diagnostics
        kernel = language.load(candidate, Path(build.artefact or "."), workload.outputs)
        for one, other in zip(kernel(*inputs), want, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        with pytest.raises(NotImplementedError, match=r"^Unsupported:"):
            kernel(inputs[0][:3].clone(), inputs[1][:3].clone(), inputs[2])


@pytest.mark.long
@pytest.mark.needs("C++ compiler")
def test_memory_of_programs_is_measured_in_another_process(proposed):
    problem, candidates = proposed
    broken = candidates[0].model_copy(update={"entry": "run.py:nothing"})
    first, none = peaks_of(problem.task, [candidates[0], broken])
    assert first is not None and first >= 4 * (40 * 16 + 90 * 16) and none is None
