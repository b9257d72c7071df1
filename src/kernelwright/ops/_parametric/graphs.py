"""Graph queries for matchers, and printing of a pointwise tree."""

from collections.abc import Callable, Sequence
from itertools import count

from ...languages.vectors import Term, Unprintable, print_pointwise
from ...records import Scalar
from ...tasks.capture import Graph, Node, Ref

_OUTSIDE = ("input", "state")


def slots(graph: Graph) -> dict[str, int]:
    """Return each input's and state tensor's position in the call; outputs follow after the last."""
    named = {name: i for i, name in enumerate(graph.inputs) if name is not None}
    return named | {name: len(graph.inputs) + i for i, name in enumerate(graph.state)}


def slot(graph: Graph, name: str) -> int:
    """Return the position of one input or state tensor in the call."""
    return slots(graph)[name]


def only_output(graph: Graph, dtypes: Sequence[str] = ("float32",)) -> Node | None:
    """Return the node of the one output, or None if there are several, mutations or another dtype."""
    if len(graph.outputs) != 1 or graph.mutations:
        return None
    node = graph.node(graph.outputs[0])
    return node if node.dtype in dtypes else None


def reach(graph: Graph, node: Node, index: int = 0) -> Node:
    """Return the node behind an argument that is a result; raises `KeyError` if it is not one."""
    argument = node.args[index]
    if not isinstance(argument, Ref):
        raise KeyError(f"argument {index} of {node} is no result")
    return graph.node(argument.name)


class Tree:
    """Print the pointwise nodes between some leaves and a root as C++ statements, each node once.

    Args:
        graph: Where the nodes are.
        leaf: Returns the term of a node that ends the tree, or None if it is to be printed.
    """

    def __init__(self, graph: Graph, leaf: Callable[[Node], Term | None]) -> None:
        self.lines: list[str] = []
        self._graph = graph
        self._leaf = leaf
        self._terms: dict[str, Term] = {}
        self._names = (f"t{i}" for i in count())

    def term(self, name: str) -> Term:
        """Return the term of a node, after adding what it needs to `lines`; raises `Unprintable`."""
        if name not in self._terms:
            node = self._graph.node(name)
            self._terms[name] = self._leaf(node) or self._print(node)
        return self._terms[name]

    def _print(self, node: Node) -> Term:
        if node.op in (*_OUTSIDE, "constant", "getitem") or node.dtype not in ("float32", "bool"):
            raise Unprintable(f"{node.name} is no pointwise node of float32")
        args = [self._argument(a) for a in node.args]
        kwargs = {k: v for k, v in node.kwargs if v is None or isinstance(v, bool | int | float | str)}
        printed = print_pointwise(node.op, args, kwargs)
        if printed.kind == "scalar":
            return printed
        name = next(self._names)
        kind = "kw::F" if printed.kind == "float" else "kw::M"
        self.lines.append(f"const {kind} {name} = {printed.text};")
        return Term(name, printed.kind)

    def _argument(self, argument: object) -> Term | Scalar:
        if isinstance(argument, Ref):
            return self.term(argument.name)
        if isinstance(argument, bool | int | float | str | None):
            return argument
        raise Unprintable(f"{argument!r} has no vector form")
