"""Problem → Templates: the parametric kernels of `kernelwright.ops` that compute the whole task."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from ..errors import InputError, TaskError
from ..ops import match_all
from ..records import Split, TensorSpec, Workload
from ..tasks import Problem
from ..tasks.capture import Graph, Node, Ref, capture
from ._protocol import Request, Template

_ARITHMETIC = frozenset({"add", "sub", "rsub", "mul", "div"})
_Number = tuple[str, int, int | float]
"""Node, argument position, value."""


class LibraryProposer:
    """Match the captured graph of a task against every family of kernels.

    A number that depends on the sizes (the batch size in a mean over it) is computed from them: comparing with the
    graph of another workload, made up if the task has only one, shows which numbers do.

    Covers: graphs that one template computes from end to end, including several outputs.
    Does not cover: graphs that need two kernels; numbers that depend on the sizes other than as their product.
    """

    name = "library"

    def propose(self, request: Request) -> Iterator[Template]:
        """Yield the templates in the requested languages, most specific first; none for backward tasks."""
        task = request.problem.task
        if task.contract.backward:
            raise InputError(
                f"{task.name} asks for gradients; the library's kernels compute the forward only"
            )
        workloads = task.split(Split.SEARCH) or task.workloads
        ends = (*workloads[:1], *workloads[1:][-1:])
        graphs = [capture(request.problem, workload) for workload in ends]
        first, workload = min(zip(graphs, ends, strict=True), key=lambda pair: _ones(pair[1]))
        graph = _with_sizes(first, [*graphs, *_probed(request.problem, workload, first)])
        if graph is None:
            return
        order = {language: i for i, language in enumerate(request.languages)}
        found = [t for t in match_all(graph, workload) if t.language in order]
        yield from sorted(found, key=lambda template: order[template.language])


def _ones(workload: Workload) -> int:
    """Count the sizes equal to 1, for which graphs are ambiguous: an instance norm looks like a batch norm."""
    return sum(spec.shape.count(1) for spec in workload.arguments if isinstance(spec, TensorSpec))


def _numbers(graph: Graph) -> list[_Number]:
    """Return the constants of a graph; a template has those of one workload built in."""
    return [
        (node.name, place, argument)
        for node in graph.ops
        if node.op.split(".")[1] in _ARITHMETIC
        for place, argument in enumerate(node.args)
        if isinstance(argument, int | float)
    ]


def _outside(graph: Graph) -> list[Node]:
    return [graph.node(name) for name in (*graph.inputs, *graph.state) if name is not None]


def _products(node: Node) -> Iterator[tuple[int, ...]]:
    """Yield every subset of a tensor's dimensions."""
    for count in range(1, len(node.shape) + 1):
        yield from combinations(range(len(node.shape)), count)


def _probed(problem: Problem, workload: Workload, graph: Graph) -> Iterator[Graph]:
    """Capture at sizes of no other workload if a number is a product of sizes, or its reciprocal."""
    sizes = {prod(n.shape[d] for d in dims) for n in _outside(graph) for dims in _products(n)}
    if not any(
        value in sizes or (value and 1 / value in sizes) for _, _, value in _numbers(graph) if abs(value) != 1
    ):
        return
    moved = {name: 2 * size + 1 + i for i, (name, size) in enumerate(workload.axes.items())}
    for axes in (moved, *({name: size} for name, size in moved.items())):
        try:
            yield capture(problem, problem.at(workload, {**workload.axes, **axes}))
        except TaskError:
            continue
        if axes is moved:
            return


def _with_sizes(graph: Graph, others: Sequence[Graph]) -> Graph | None:
    """Return the graph with `size` nodes for the numbers that differ. None if one does not depend on the sizes."""
    numbers = [_numbers(other) for other in others]
    if len({len(found) for found in numbers}) > 1:
        return None
    nodes = {node.name: node for node in graph.nodes}
    made: dict[str, Node] = {}
    for (name, place, _), *versions in zip(_numbers(graph), *numbers, strict=True):
        values = [value for _, _, value in versions]
        if len(set(values)) == 1:
            continue
        size = _size(others, values)
        if size is None:
            return None
        made.setdefault(size.name, size)
        args = nodes[name].args
        nodes[name] = replace(nodes[name], args=(*args[:place], Ref(size.name), *args[place + 1 :]))
    outside = len(_outside(graph))
    known = [nodes[node.name] for node in graph.nodes]
    return replace(graph, nodes=(*known[:outside], *made.values(), *known[outside:]))


def _size(graphs: Sequence[Graph], values: Sequence[int | float]) -> Node | None:
    """Return the node of the sizes whose product gives the value in each graph."""
    for tensors in zip(*map(_outside, graphs), strict=True):
        for dims in _products(tensors[0]):
            if all(prod(t.shape[d] for d in dims) == v for t, v in zip(tensors, values, strict=True)):
                name = f"size_of_{tensors[0].name}_{'_'.join(map(str, dims))}"
                return Node(name, "size", (Ref(tensors[0].name), dims), (), (), "int64")
    return None
