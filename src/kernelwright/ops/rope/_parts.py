"""Read a graph as pointwise functions of the two parts of rows: halves, or even and odd elements.

A node's last axis is either *full* (both parts) or *half* (one part's length). A full node has a value for
part 0 and one for part 1; a slice picks a part, a concatenation joins two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from ...languages.vectors import Term, Unprintable, print_pointwise
from ...tasks.capture import Graph, Node, Ref
from .._parametric import reach, slots

Axes = tuple[int, ...]
"""For each axis of an output, the axis of an input that it follows, or -1."""


@dataclass(frozen=True)
class Dialect:
    """How a language writes loads, operators and statements."""

    load_part: Callable[[int, int], str]
    """Leaf and part → the elements of a full row's part."""
    load_half: Callable[[int], str]
    """Leaf → the elements of a row that is as long as a part."""
    operator: Callable[[str, list[Term | float], dict[str, object]], str]
    """Operator, operands and keywords → expression."""
    statement: str
    """Statement that gives `{name}` the value `{text}`."""


def _cpp_operator(op: str, args: list[Term | float], kwargs: dict[str, object]) -> str:
    plain = {k: v for k, v in kwargs.items() if isinstance(v, bool | int | float | str)}
    return print_pointwise(op, args, {**plain}).as_float()


CPP = Dialect(
    lambda leaf, part: f"load_part<NEIGHBOURS>(p[{leaf}], {part}, j, h, lanes)",
    lambda leaf: f"kw::load(p[{leaf}] + j, lanes)",
    _cpp_operator,
    "const kw::F {name} = {text};",
)


@dataclass
class Parts:
    """Prints one output: statements, then the terms of its two parts."""

    graph: Graph
    shape: tuple[int, ...]
    neighbours: bool
    dialect: Dialect = CPP
    lines: list[str] = field(default_factory=list)
    leaves: list[tuple[int, Axes]] = field(default_factory=list)
    """Argument and axes of every tensor that is read."""
    full: set[int] = field(default_factory=set)
    """Leaves whose rows are as long as the output's."""

    def __post_init__(self) -> None:
        self._terms: dict[tuple[str, int], Term] = {}
        self._names = (f"t{i}" for i in count())
        self._places = slots(self.graph)

    def term(self, name: str, part: int) -> Term:
        """Return the term of a node's part; raises `Unprintable` or `KeyError` if there is no such form."""
        key = (name, part)
        if key not in self._terms:
            self._terms[key] = self._make(self.graph.node(name), part)
        return self._terms[key]

    def _make(self, node: Node, part: int) -> Term:
        if node.dtype not in ("float32", "tuple"):
            raise Unprintable(f"{node.name} is not float32")
        leaf = self._leaf(node)
        if leaf is not None:
            return self._load(node, leaf, part)
        picked = self._picked(node)
        if picked is not None:
            return self.term(*picked)
        joined = self._joined(node)
        if joined is not None:
            return self.term(joined[part], 0)
        if node.op == "aten.unsqueeze.default" and node.shape[-1:] == (1,):
            return self.term(reach(self.graph, node).name, 0)
        operands = [self._operand(a, part) for a in node.args]
        text = self.dialect.operator(node.op, operands, dict(node.kwargs))
        name = next(self._names)
        self.lines.append(self.dialect.statement.format(name=name, text=text))
        return Term(name)

    def _operand(self, argument: object, part: int) -> Term | float:
        if isinstance(argument, Ref):
            return self.term(argument.name, part)
        if isinstance(argument, int | float):
            return argument
        raise Unprintable(f"{argument!r} is no operand")

    def _leaf(self, node: Node) -> tuple[str, Axes] | None:
        """Return the input behind views that only add, drop or swap leading axes, and the axes' map."""
        steps = []
        while node.op not in ("input", "state"):
            moved = _moved(self.graph, node)
            if moved is None:
                return None
            steps.append(moved)
            node = reach(self.graph, node)
        axes: Axes = tuple(range(len(node.shape)))
        for step in reversed(steps):
            axes = tuple(axes[i] if i >= 0 else -1 for i in step)
        if axes[-1:] != (len(node.shape) - 1,) or len(axes) > len(self.shape):
            return None
        return node.name, (-1,) * (len(self.shape) - len(axes)) + axes

    def _load(self, node: Node, leaf: tuple[str, Axes], part: int) -> Term:
        entry = (self._places[leaf[0]], leaf[1])
        if entry not in self.leaves:
            self.leaves.append(entry)
        index = self.leaves.index(entry)
        width = node.shape[-1]
        if width == self.shape[-1]:
            self.full.add(index)
            return Term(self.dialect.load_part(index, part))
        if 2 * width == self.shape[-1]:
            return Term(self.dialect.load_half(index))
        raise Unprintable(f"{node.name} has {width} elements a row, expected {self.shape[-1]} or half of it")

    def _picked(self, node: Node) -> tuple[str, int] | None:
        """Return the full node and the part that a slice or an item of a split takes from it."""
        if node.op == "getitem":
            split = reach(self.graph, node)
            source = reach(self.graph, split)
            halves = node.shape[-1] * 2 == source.shape[-1] == self.shape[-1]
            if split.op != "aten.split_with_sizes.default" or not halves or self.neighbours:
                return None
            return source.name, int(str(node.args[1]))
        if node.op == "aten.slice.Tensor":
            given, source = node.arguments(), reach(self.graph, node)
            last = given["dim"] in (-1, len(source.shape) - 1)
            if not last or node.shape[-1] * 2 != source.shape[-1] or source.shape[-1] != self.shape[-1]:
                return None
            start = int(str(given["start"] or 0)) % source.shape[-1]
            if given["step"] == 2 and self.neighbours:
                return source.name, start
            if given["step"] == 1 and not self.neighbours and start in (0, node.shape[-1]):
                return source.name, start // node.shape[-1]
        return None

    def _joined(self, node: Node) -> tuple[str, str] | None:
        """Return the two nodes whose parts a concatenation or a stack joins."""
        if self.neighbours and node.op == "aten.view.default":
            node = reach(self.graph, node)
            if node.shape[-1:] != (2,) or node.shape[-2] * 2 != self.shape[-1]:
                return None
        if node.op != "aten.cat.default" or not isinstance(node.args[0], tuple):
            return None
        refs = [a.name for a in node.args[0] if isinstance(a, Ref)]
        dim = node.args[1] if len(node.args) > 1 else 0
        if len(refs) != 2 or dim not in (-1, len(node.shape) - 1):
            return None
        if not self.neighbours and node.shape[-1] != self.shape[-1]:
            return None
        return refs[0], refs[1]


def _moved(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Return which axis of its source each axis of a view follows, -1 for a new one of size one."""
    if not node.args or not isinstance(node.args[0], Ref):
        return None
    source = reach(graph, node).shape
    if node.op == "aten.permute.default" and isinstance(node.args[1], tuple):
        return tuple(int(str(i)) % len(source) for i in node.args[1])
    if node.op == "aten.unsqueeze.default":
        at = int(str(node.args[1])) % len(node.shape)
        return (*range(at), -1, *range(at, len(source)))
    if node.op in ("aten.view.default", "aten.squeeze.dims", "aten.squeeze.dim"):
        return _aligned(source, node.shape)
    if node.op == "aten.expand.default":
        added = len(node.shape) - len(source)
        return (*([-1] * added), *range(len(source)))
    if node.op == "aten.clone.default":
        return tuple(range(len(source)))
    return None


def _aligned(source: Sequence[int], viewed: Sequence[int]) -> tuple[int, ...] | None:
    """Align two shapes that differ in axes of size one only."""
    if [s for s in source if s != 1] != [s for s in viewed if s != 1]:
        return None
    real = iter(i for i, s in enumerate(source) if s != 1)
    return tuple(next(real) if size != 1 else -1 for size in viewed)


Row = tuple[Parts, str, str]
"""One output: its statements and leaves, and the terms of its two parts."""
_MAX_AXES = 6


def rows_of(graph: Graph, dialect: Dialect = CPP) -> tuple[list[Row], bool]:
    """Read every output as rows of two parts; also returns whether the parts are neighbours.

    Raises:
        Unprintable: an output has no such form.
    """
    if not any(node.op == "aten.cat.default" for node in graph.ops):
        raise Unprintable("nothing is rotated")
    if any(graph.node(name).dtype != "float32" for name in graph.outputs):
        raise Unprintable("outputs other than float32")
    neighbours = any(n.op == "aten.slice.Tensor" and n.arguments()["step"] == 2 for n in graph.ops)
    return [_row(graph, name, neighbours, dialect) for name in graph.outputs], neighbours


def _row(graph: Graph, output: str, neighbours: bool, dialect: Dialect) -> Row:
    """Print one output: its statements and leaves, and the terms of its parts."""
    shape = graph.node(output).shape
    if not 1 <= len(shape) <= _MAX_AXES or shape[-1] % 2:
        raise Unprintable(f"an output of shape {shape} has no two parts a row")
    parts = Parts(graph, shape, neighbours, dialect)
    first, second = parts.term(output, 0), parts.term(output, 1)
    return parts, first.text, second.text
