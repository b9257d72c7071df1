"""Graph of a training step → its forward and its backward part, by what the first keeps for the second.

A step returns its loss first. What depends on the gradient of the loss, which is one, is the backward part. The values
of the forward part that it reads are kept, or computed again there, as the partitioners of AOTAutograd decide.

Covers: every `Partition`.
Does not cover: graphs whose first result is no loss that other results are gradients of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch import config
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

from ._harvest import NO_STEP, HarvestError, Head, Partition
from ._head import NoHeadError, without_head

_aten = torch.ops.aten
_BUDGETS: dict[str, float] = {"min-cut": 1.0, "half": 0.5, "inputs": 0.0}
"""Share of what torch.compile keeps that a partition may keep."""
_PRIMAL, _TANGENT = "primals_", "tangents_"
"""How the partitioners know the inputs of a step, and those that the backward part begins with."""


@dataclass(frozen=True)
class Joint:
    """A step before it is parted."""

    graph: fx.GraphModule
    """Takes the step's tensors, then what the backward part begins with; returns the forward part's results first."""
    forward: int
    """How many results are the forward part's."""
    results: tuple[int, ...]
    """Which of its results each result of the step is."""
    head: Head | None
    """Takes the last results of the forward part, and gives what the backward part begins with; none if that is one."""
    asked: int
    """How many results it takes."""


@dataclass(frozen=True)
class Parts:
    """A step in two parts; values are named as in `Step`."""

    forward: fx.GraphModule
    """Takes the step's tensors."""
    backward: fx.GraphModule
    """Takes what is kept."""
    asked: tuple[str, ...]
    """What the head takes."""
    kept: tuple[str, ...]
    """What the backward part takes."""
    results: tuple[str, ...]
    """The step's results."""


def joint_of(graph: fx.GraphModule, tensors: Sequence[torch.Tensor], *, head: bool) -> Joint:
    """Find the backward part of a step, and its head if that is asked for.

    Args:
        graph: The step, operator by operator; it is changed.
        tensors: Its tensors.
        head: Whether a kernel is to compute the head.

    Raises:
        HarvestError: it is no step, or has no such head.
    """
    outputs = _outputs(graph)
    seed = _seed(outputs[0])
    try:
        cut = without_head(graph, seed) if head else None
    except NoHeadError as error:
        raise HarvestError(f"no loss head: {error}") from error
    outputs = _outputs(graph)
    begins = cut.made if cut else (_begin(graph, seed),)
    behind = set(begins)
    for node in graph.graph.nodes:
        if not behind.isdisjoint(node.all_input_nodes):
            behind.add(node)
    asked = cut.asked if cut else ()
    first = [*(o for o in dict.fromkeys(outputs) if o not in behind), *asked]
    last = [o for o in dict.fromkeys(outputs) if o in behind]
    graph.graph.output_node().args = ((*first, *last),)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    places = {node: place for place, node in reversed([*enumerate((*first, *last))])}
    given = [*tensors, *(torch.ones(b.meta["val"].shape, dtype=b.meta["val"].dtype) for b in begins)]
    with torch.no_grad():
        made = make_fx(graph, tracing_mode="fake", decomposition_table=select_decomp_table())(*given)
    for number, node in enumerate(made.graph.find_nodes(op="placeholder")):
        late = number - len(tensors)
        node.name = node.target = f"{_TANGENT}{late}" if late >= 0 else f"{_PRIMAL}{number}"
    made.recompile()
    return Joint(made, len(first), tuple(places[o] for o in outputs), cut.head if cut else None, len(asked))


def parted(joint: Joint, partition: Partition) -> Parts:
    """Part a step."""
    graph = fx.GraphModule(joint.graph, fx.Graph())
    graph.graph.output(graph.graph.graph_copy(joint.graph.graph, {}))
    if partition in _BUDGETS:
        with config.patch(activation_memory_budget=_BUDGETS[partition]):
            halves = min_cut_rematerialization_partition(graph, (), num_fwd_outputs=joint.forward)
    else:
        if partition == "everything":
            graph.graph = fx_graph_cse(graph.graph)
        _tag(graph, joint.forward)
        halves = default_partition(graph, (), num_fwd_outputs=joint.forward)
    forward, backward = halves
    names = {f"{_PRIMAL}{n}": f"t[{n}]" for n in range(len(forward.graph.find_nodes(op="placeholder")))}
    once = list(dict.fromkeys(o for o in _outputs(forward) if o.name not in names))
    names |= {node.name: f"f[{place}]" for place, node in enumerate(once)}
    first = [names[o.name] for o in _outputs(forward)[: joint.forward]]
    forward.graph.output_node().args = (tuple(once),)
    names |= {f"{_TANGENT}{n}": f"h[{n}]" for n in range(4)}
    if joint.head is None:
        _one(backward)
    kept = tuple(names[n.name] for n in backward.graph.find_nodes(op="placeholder"))
    ends = _outputs(backward)
    computed = list(dict.fromkeys(o for o in ends if o.op != "placeholder"))
    late = [names[o.name] if o.op == "placeholder" else f"b[{computed.index(o)}]" for o in ends]
    backward.graph.output_node().args = (tuple(computed),)
    for one in (forward, backward):
        one.recompile()
    every = [*first, *late]
    asked = tuple(first[len(first) - joint.asked :]) if joint.asked else ()
    return Parts(forward, backward, asked, kept, tuple(every[place] for place in joint.results))


def _outputs(graph: fx.GraphModule) -> list[fx.Node]:
    results: Any = graph.graph.output_node().args[0]
    return list(results)


def _seed(loss: fx.Node) -> fx.Node:
    """Return the gradient of the loss."""
    while loss.target in (_aten.clone.default, _aten.alias.default):
        loss = loss.all_input_nodes[0]
    found = [n for n in loss.users if n.target is _aten.ones_like.default]
    if len(found) != 1 or found[0].meta["val"].dim():
        raise HarvestError(NO_STEP)
    return found[0]


def _begin(graph: fx.GraphModule, seed: fx.Node) -> fx.Node:
    """Let the gradient of the loss be an input."""
    last = graph.graph.find_nodes(op="placeholder")[-1]
    with graph.graph.inserting_after(last):
        begin = graph.graph.placeholder("begin")
    begin.meta["val"] = seed.meta["val"]
    seed.replace_all_uses_with(begin)
    graph.graph.erase_node(seed)
    return begin


def _tag(graph: fx.GraphModule, forward: int) -> None:
    """Tag what the forward part's results are made of, as AOTAutograd would."""
    wanted = set(_outputs(graph)[:forward])
    for node in reversed(graph.graph.nodes):
        if node in wanted and node.op == "call_function":
            node.meta["partitioner_tag"] = "is_forward"
            wanted.update(node.all_input_nodes)


def _one(backward: fx.GraphModule) -> None:
    """Compute the gradient of the loss where it is read."""
    for node in backward.graph.find_nodes(op="placeholder"):
        if node.name.startswith(_TANGENT):
            value = node.meta["val"]
            with backward.graph.inserting_before(
                next(n for n in backward.graph.nodes if n.op != "placeholder")
            ):
                one = backward.graph.call_function(_aten.full.default, ([], 1.0), {"dtype": value.dtype})
            one.meta["val"] = value
            node.replace_all_uses_with(one)
            backward.graph.erase_node(node)
