"""Match rotary position embedding and render its kernel."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ...records import Configuration, Parameter, Space, Workload
from ...tasks.capture import Graph
from .._parametric import KernelTemplate, Rendered, assemble, forms
from . import triton
from ._parts import Row, rows_of

_TEXT = Path(__file__).with_name("template.cpp")


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield templates if every output is a pointwise function of the two parts of rows."""
    yield from forms(graph, template, triton.template)


def template(graph: Graph) -> KernelTemplate:
    """Return the form in C++."""
    rows, neighbours = rows_of(graph)
    space = Space(parameters=(Parameter(name="stream_mib", values=(4, 12, 32)),))
    return KernelTemplate(
        "rope/neighbours" if neighbours else "rope/halves", "cpp", space, {"stream_mib": 12},
        partial(_render, rows, neighbours, len(graph.inputs) + len(graph.state)),
        "rotates both parts of a row in one pass, tables broadcast by strides",
    )  # fmt: skip


def _render(rows: Sequence[Row], neighbours: bool, outputs: int, configuration: Configuration) -> Rendered:
    structs, calls = [], []
    for i, (parts, first, second) in enumerate(rows):
        statements = " ".join(parts.lines)
        structs.append(
            f"struct Row{i} {{ static constexpr int kLeaves = {len(parts.leaves)}; template <class Lanes> "
            "static inline __attribute__((always_inline)) void at(const float* const* p, float* to, int64_t j, "
            f"int64_t h, Lanes lanes) {{ {statements} store_parts<NEIGHBOURS>(to, j, h, {first}, {second}, lanes); }} "
            "};"
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
    return assemble(_TEXT, "rope", constants)
