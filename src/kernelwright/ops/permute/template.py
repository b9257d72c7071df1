"""Match permute-and-copy and render its kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

from ...records import Configuration, Parameter, Space, Workload
from ...tasks.capture import Graph
from .._parametric import KernelTemplate, Rendered, assemble, forms, reach, slot

_TEXT = Path(__file__).with_name("template.cpp")
_BYTES = {
    "float32": 4, "int32": 4, "float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2,
    "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
_RESHAPES = (
    "aten.view.default", "aten.unsqueeze.default", "aten.squeeze.dims", "aten.squeeze.dim", "aten._unsafe_view.default",
)  # fmt: skip


@dataclass(frozen=True)
class _Permute:
    """The shape that is permuted, as expressions over the input's sizes, and the order of its axes."""

    sizes: tuple[str, ...]
    order: tuple[int, ...]
    source: int
    output: int
    bytes: int


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield the template if the graph is one contiguous copy of one permuted input."""
    yield from forms(graph, template)


def template(graph: Graph) -> KernelTemplate | None:
    """Return the form in C++."""
    found = _find(graph)
    if found is None:
        return None
    space = Space(
        parameters=(
            Parameter(name="block_rows", values=(16, 64, 256, 1024)),
            Parameter(name="block_columns", values=(16, 64, 256)),
            Parameter(name="input_order", values=(False, True)),
            Parameter(name="stream_mib", values=(4, 12, 32)),
        ),
        constraints=("block_rows * block_columns <= 16384",),
    )
    first: Configuration = {"block_rows": 256, "block_columns": 16, "input_order": True, "stream_mib": 12}
    return KernelTemplate(
        "permute/tiles", "cpp", space, first, partial(_render, found),
        "transposes in registers, so that reads and writes are whole cache lines",
    )  # fmt: skip


def _find(graph: Graph) -> _Permute | None:
    if len(graph.outputs) != 1:
        return None
    node = graph.node(graph.outputs[0])
    while node.op in _RESHAPES:
        node = reach(graph, node)
    if node.op != "aten.clone.default" or node.dtype not in _BYTES:
        return None
    permuted = reach(graph, node)
    if permuted.op != "aten.permute.default" or not isinstance(permuted.args[1], tuple):
        return None
    source = viewed = reach(graph, permuted)
    while source.op in _RESHAPES:
        source = reach(graph, source)
    sizes = sizes_of_view(source.shape, viewed.shape)
    if source.op not in ("input", "state") or sizes is None:
        return None
    order = tuple(int(str(i)) % len(viewed.shape) for i in permuted.args[1])
    place = len(graph.inputs) + len(graph.state)
    return _Permute(sizes, order, slot(graph, source.name), place, _BYTES[node.dtype])


def sizes_of_view(shape: Sequence[int], viewed: Sequence[int]) -> tuple[str, ...] | None:
    """Express the sizes of a view by the sizes of what it views, so that they hold for other sizes too.

    Axes are grouped where both sides have the same product. Of several viewed axes in a group the first
    follows the input and the others are constants, as heads are in `(batch, length, heads * dim)`.

    Example:
        >>> sizes_of_view((2, 3, 20), (2, 3, 4, 5))
        ('x->shape[0]', 'x->shape[1]', '(x->shape[2] / 5)', '5')
    """
    if prod(shape) != prod(viewed) or prod(shape) == 0:
        return None
    sizes: list[str] = []
    i = j = 0
    while i < len(shape) or j < len(viewed):
        first_i, first_j = i, j
        a = shape[i] if i < len(shape) else 1
        b = viewed[j] if j < len(viewed) else 1
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a *= shape[i]
                i += 1
            else:
                b *= viewed[j]
                j += 1
        total = " * ".join(f"x->shape[{k}]" for k in range(first_i, min(i, len(shape)))) or "1"
        rest = viewed[first_j + 1 : j]
        if first_j < len(viewed):
            whole = total if i - first_i == 1 else f"({total})"
            sizes.append(whole if prod(rest) == 1 else f"({whole} / {prod(rest)})")
            sizes.extend(map(str, rest))
    return tuple(sizes)


def _render(found: _Permute, configuration: Configuration) -> Rendered:
    constants = {
        "BYTES": found.bytes, "AXES": len(found.order), "ORDER": ", ".join(map(str, found.order)),
        "SIZES": ", ".join(found.sizes), "INPUT": found.source, "OUTPUT": found.output,
        "BLOCK_ROWS": configuration["block_rows"], "BLOCK_COLUMNS": configuration["block_columns"],
        "INPUT_ORDER": configuration["input_order"], "STREAM_MIB": configuration["stream_mib"],
    }  # fmt: skip
    return assemble(_TEXT, "permute", constants)
