"""Match pointwise functions of a tensor's parts and render their kernel."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...languages.vectors import C_TYPES, Term, Unprintable
from ...records import Configuration, Parameter, Space, Workload
from ...tasks.capture import Graph, Node
from .._parametric import KernelTemplate, Rendered, Tree, assemble, forms, only_output, slots
from . import triton
from ._parts import part_of

_TEXT = Path(__file__).with_name("template.cpp")


@dataclass(frozen=True)
class _Gate:
    """The expression and the tensor that is split."""

    axis: int
    parts: int
    statements: str
    places: tuple[str, ...]
    """What is read of the inputs, each from end to end."""
    inputs: tuple[tuple[int, str], ...]
    source: int
    output: int


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield templates if the graph is a pointwise function of parts of one input, as gated linear units are."""
    yield from forms(graph, template, triton.template)


def template(graph: Graph) -> KernelTemplate | None:
    """Return the form in C++."""
    found = _find(graph)
    if found is None:
        return None
    space = Space(
        parameters=(
            Parameter(name="unroll", values=(1, 2, 4)),
            Parameter(name="stream_mib", values=(4, 12, 32)),
        )
    )
    return KernelTemplate(
        "glu/parts", "cpp", space, {"unroll": 2, "stream_mib": 12}, partial(_render, found),
        "reads the parts where they lie, one pass",
    )  # fmt: skip


def _find(graph: Graph) -> _Gate | None:
    root = only_output(graph)
    if root is None:
        return None
    places = slots(graph)
    used: list[tuple[int, str]] = []
    wholes: set[tuple[str, int, int]] = set()
    places_read: dict[str, None] = {}

    def field(name: str, dtype: str) -> int:
        entry = (places[name], C_TYPES[dtype])
        if entry not in used:
            used.append(entry)
        return used.index(entry)

    def read(place: str) -> Term:
        places_read[place] = None
        return Term(f"kw::load({place}, lanes)")

    def leaf(node: Node) -> Term | None:
        part = part_of(graph, node)
        if part is not None and node.shape == root.shape and node.dtype == "float32":
            wholes.add((part.source, part.axis, part.parts))
            return read(f"a{field(part.source, node.dtype)} + part + {part.index} * run")
        if node.name in places:
            if node.shape != root.shape or node.dtype not in ("float32", "bool"):
                raise Unprintable(f"{node.name} is not {root.shape} of float32 or bool")
            return read(f"a{field(node.name, node.dtype)} + flat")
        return None

    tree = Tree(graph, leaf)
    term = tree.term(root.name)
    if len(wholes) != 1:
        return None
    ((source, axis, parts),) = wholes
    if parts < 2:
        return None
    statements = " ".join([*tree.lines, f"return {term.as_float()};"])
    output = len(graph.inputs) + len(graph.state)
    return _Gate(axis, parts, statements, tuple(places_read), tuple(used), places[source], output)


def _render(gate: _Gate, configuration: Configuration) -> Rendered:
    constants = {
        "AXIS": gate.axis, "PARTS": gate.parts, "STATEMENTS": gate.statements, "INPUT": gate.source,
        "FIELDS": " ".join(f"const {c}* a{i};" for i, (_, c) in enumerate(gate.inputs)),
        "ARGUMENTS": ", ".join(f"args.tensor<const {c}>({place}).data()" for place, c in gate.inputs),
        "ASKED": " ".join(f"kw::read_ahead(x.{place}, outer * run);" for place in gate.places),
        "OUTPUT": gate.output, "UNROLL": configuration["unroll"], "STREAM_MIB": configuration["stream_mib"],
    }  # fmt: skip
    return assemble(_TEXT, "glu", constants)
