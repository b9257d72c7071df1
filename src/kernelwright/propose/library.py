"""Problem → Templates: the parametric kernels of `kernelwright.kernels` that compute the whole task."""

from collections.abc import Iterator

from ..errors import InputError
from ..kernels import match_all
from ..records import Split, TensorSpec, Workload
from ..tasks.capture import Graph, capture
from ._protocol import Request, Template

_ARITHMETIC = frozenset({"add", "sub", "rsub", "mul", "div"})


class LibraryProposer:
    """Match the captured graph of a task against every family of kernels.

    Covers: graphs that one template computes from end to end, several outputs included.
    Does not cover: graphs that need two kernels; graphs whose constants follow the sizes (a division by
    the batch), where the task has two search workloads that show it.
    """

    name = "library"

    def propose(self, request: Request) -> Iterator[Template]:
        """Yield the templates in a language that was asked for, most specific first; none for backward tasks."""
        task = request.problem.task
        if task.contract.backward:
            raise InputError(
                f"{task.name} asks for gradients; the library's kernels compute the forward only"
            )
        workloads = task.split(Split.SEARCH) or task.workloads
        ends = (workloads[0], workloads[-1])
        graphs = [capture(request.problem, workload) for workload in ends]
        if _constants(graphs[0]) != _constants(graphs[1]):
            return
        order = {language: i for i, language in enumerate(request.languages)}
        graph, workload = min(zip(graphs, ends, strict=True), key=lambda pair: _ones(pair[1]))
        found = [t for t in match_all(graph, workload) if t.language in order]
        yield from sorted(found, key=lambda template: order[template.language])


def _ones(workload: Workload) -> int:
    """Count the sizes of one: there a graph may look like another, an instance norm like a batch norm."""
    return sum(spec.shape.count(1) for spec in workload.arguments if isinstance(spec, TensorSpec))


def _constants(graph: Graph) -> list[object]:
    """Return the numbers that a graph computes with; a template has those of one workload built in."""
    return [
        argument
        for node in graph.ops
        if node.op.split(".")[1] in _ARITHMETIC
        for argument in node.args
        if isinstance(argument, int | float)
    ]
