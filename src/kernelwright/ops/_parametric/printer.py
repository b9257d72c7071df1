"""Print pointwise nodes as statements of a language."""

from collections.abc import Callable, Sequence
from itertools import count

from ...languages.vectors import Unprintable
from ...tasks.capture import Graph, Node, Ref


class Printer:
    """Print the nodes between leaves and roots as statements, each node once.

    Args:
        graph: Where the nodes are.
        special: Returns the expression of a leaf or an operator that is not pointwise; none for the others.
        operator: Prints a pointwise operator over names and numbers; raises `Unprintable`.
        statement: Gives `{name}` the value `{text}`.
    """

    def __init__(
        self,
        graph: Graph,
        special: Callable[["Printer", Node], str | None],
        operator: Callable[[str, Sequence[str | float], dict[str, object]], str],
        statement: str,
    ) -> None:
        self.lines: list[str] = []
        self._graph = graph
        self._special = special
        self._operator = operator
        self._statement = statement
        self._names: dict[str, str] = {}
        self._free = (f"t{i}" for i in count())

    def name(self, node_name: str) -> str:
        """Return the variable of a node, after adding what it needs to `lines`; raises `Unprintable`."""
        if node_name not in self._names:
            node = self._graph.node(node_name)
            text = self._special(self, node)
            if text is None:
                args = [self._operand(a) for a in node.args]
                text = self._operator(node.op, args, dict(node.kwargs))
            self._names[node_name] = self.let(text)
        return self._names[node_name]

    def let(self, text: str) -> str:
        """Add a statement that names an expression."""
        name = next(self._free)
        self.lines.append(self._statement.format(name=name, text=text))
        return name

    def _operand(self, argument: object) -> str | float:
        if isinstance(argument, Ref):
            return self.name(argument.name)
        if isinstance(argument, int | float):
            return argument
        raise Unprintable(f"{argument!r} is no operand")
