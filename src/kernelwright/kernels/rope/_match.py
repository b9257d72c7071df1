"""Match rotary position embedding and render its kernel."""

from collections.abc import Iterator, Sequence
from functools import partial

from ...records import Configuration, Parameter, Space, Workload
from ...tasks.capture import Graph
from .._core import KernelTemplate, Rendered
from .._core.expression import Unprintable
from .._shared import assemble
from ._parts import CPP, Dialect, Parts

Row = tuple[Parts, str, str]
"""One output: its statements and leaves, and the terms of its two parts."""

_MAX_AXES = 6


def rows_of(graph: Graph, dialect: Dialect = CPP) -> tuple[list[Row], bool]:
    """Read every output as rows of two parts; also returns whether the parts are neighbours.

    Raises:
        Unprintable: an output has no such form.
    """
    if graph.mutations or not any(node.op == "aten.cat.default" for node in graph.ops):
        raise Unprintable("nothing is rotated")
    if any(graph.node(name).dtype != "float32" for name in graph.outputs):
        raise Unprintable("outputs other than float32")
    neighbours = any(n.op == "aten.slice.Tensor" and n.arguments()["step"] == 2 for n in graph.ops)
    return [_row(graph, name, neighbours, dialect) for name in graph.outputs], neighbours


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield the RoPE template if every output is a pointwise function of the two parts of rows."""
    try:
        rows, neighbours = rows_of(graph)
    except (Unprintable, KeyError):
        return
    space = Space(parameters=(Parameter(name="stream_mib", values=(4, 12, 32)),))
    yield KernelTemplate(
        "rope/neighbours" if neighbours else "rope/halves", "cpp", space, {"stream_mib": 12},
        partial(_render, rows, neighbours, len(graph.inputs) + len(graph.state)),
        "rotates both parts of a row in one pass, tables broadcast by strides",
    )  # fmt: skip


def _row(graph: Graph, output: str, neighbours: bool, dialect: Dialect) -> Row:
    """Print one output: its statements and leaves, and the terms of its parts."""
    shape = graph.node(output).shape
    if not 1 <= len(shape) <= _MAX_AXES or shape[-1] % 2:
        raise Unprintable(f"an output of shape {shape} has no two parts a row")
    parts = Parts(graph, shape, neighbours, dialect)
    first, second = parts.term(output, 0), parts.term(output, 1)
    return parts, first.text, second.text


def _render(rows: Sequence[Row], neighbours: bool, outputs: int, configuration: Configuration) -> Rendered:
    structs, calls = [], []
    for i, (parts, first, second) in enumerate(rows):
        statements = " ".join(parts.lines)
        structs.append(
            f"struct Row{i} {{ static constexpr int kLeaves = {len(parts.leaves)}; template <class Lanes> "
            "static inline __attribute__((always_inline)) void at(const float* const* p, float* to, int64_t j, "
            f"int64_t h, Lanes lanes) {{ {statements} put(to, j, h, {first}, {second}, lanes); }} }};"
        )
        leaves = ", ".join(
            f"Leaf{{{place}, {str(leaf in parts.full).lower()}, {{{', '.join(map(str, axes[:-1] or (-1,)))}}}}}"
            for leaf, (place, axes) in enumerate(parts.leaves)
        )
        calls.append(f"rotate<Row{i}>(args, {outputs + i}, {{{leaves}}});")
    constants = {
        "NEIGHBOURS": neighbours, "OUTPUT_ROWS": " ".join(structs), "CALLS": " ".join(calls),
        "STREAM_MIB": configuration["stream_mib"],
    }  # fmt: skip
    return assemble("rope/rope.cpp", "rope", constants)
