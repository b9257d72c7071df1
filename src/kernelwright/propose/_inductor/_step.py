"""A training step → the code of its two parts, for each way to part it."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from ...records import Workload
from ...tasks import Problem
from ...tasks.capture import packed
from ._compiled import code_of, functional
from ._harvest import HarvestError, Parting, Step
from ._joint import Joint, joint_of, parted


class Steps:
    """A training step on one workload, parted in one way after another."""

    def __init__(self, problem: Problem, workload: Workload) -> None:
        inputs, state = problem.inputs(workload, seed=0), problem.state(workload, seed=0)
        self._function, self._given = functional(problem, workload, inputs, state)
        self._joints: dict[bool, tuple[Joint, list[torch.Tensor]]] = {}

    def parted(self, parting: Parting) -> Step:
        """Return the code of its parts.

        Raises:
            HarvestError: it is no step, or has no head that is known.
        """
        with torch.no_grad():
            joint, constants = self._joint(head=parting.head)
            parts = parted(joint, parting.keeps)
            forward = code_of(parts.forward, [*self._given, *constants], {})
            taken = [n.meta["val"] for n in parts.backward.graph.find_nodes(op="placeholder")]
            like = [torch.empty_strided(v.size(), v.stride(), dtype=v.dtype) for v in taken]
            backward = code_of(parts.backward, like, {})
        texts = [packed(constant) for constant in constants]
        if None in texts:
            raise HarvestError("a constant is too large for a text")
        return Step(
            tensors=tuple((tuple(t.shape), t.stride(), str(t.dtype)) for t in self._given), head=joint.head,
            constants=tuple(text or "" for text in texts), forward=forward, backward=backward, asked=parts.asked,
            kept=parts.kept, results=parts.results,
        )  # fmt: skip

    def _joint(self, *, head: bool) -> tuple[Joint, list[torch.Tensor]]:
        """Return the joint graph, and the constants that it takes after the step's tensors."""
        if head not in self._joints:
            graph = make_fx(self._function, tracing_mode="fake", _allow_non_fake_inputs=True)(*self._given)
            constants = _lifted(graph)
            self._joints[head] = joint_of(graph, [*self._given, *constants], head=head), constants
        return self._joints[head]


def _lifted(graph: torch.fx.GraphModule) -> list[torch.Tensor]:
    """Make constants of a graph its last inputs; return them."""
    constants = list[torch.Tensor]()
    for node in graph.graph.find_nodes(op="get_attr"):
        last = graph.graph.find_nodes(op="placeholder")[-1]
        with graph.graph.inserting_after(last):
            given = graph.graph.placeholder(f"constant{len(constants)}")
        constants.append(getattr(graph, str(node.target)))
        given.meta["val"] = node.meta.get("val", constants[-1])
        node.replace_all_uses_with(given)
        graph.graph.erase_node(node)
    graph.recompile()
    return constants
