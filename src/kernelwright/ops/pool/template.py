"""Match windowed pooling and render its kernel."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...records import Configuration, Parameter, Space, Workload
from ...tasks.capture import Graph, Node
from .._parametric import KernelTemplate, Rendered, assemble, forms, only_output, reach, slot

_TEXT = Path(__file__).with_name("template.cpp")
_WINDOWED = {
    "aten.max_pool2d_with_indices.default": (2, True),
    "aten.max_pool3d_with_indices.default": (3, True),
    "aten.avg_pool2d.default": (2, False),
    "aten.avg_pool3d.default": (3, False),
}
_ADAPTIVE = {
    "aten._adaptive_avg_pool2d.default": (2, False),
    "aten._adaptive_avg_pool3d.default": (3, False),
    "aten.adaptive_max_pool2d.default": (2, True),
    "aten.adaptive_max_pool3d.default": (3, True),
}
_RESHAPES = ("aten.unsqueeze.default", "aten.squeeze.dims", "aten.squeeze.dim", "aten.view.default")


@dataclass(frozen=True)
class _Pool:
    """One pooling node and where its input comes from."""

    node: Node
    source: int
    output: int
    rank: int
    maximum: bool


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield the template if the graph is one pooling of one float32 input."""
    yield from forms(graph, template)


def template(graph: Graph) -> KernelTemplate | None:
    """Return the form in C++."""
    found = _find(graph)
    if found is None:
        return None
    kind = "adaptive" if found.node.op in _ADAPTIVE else "window"
    render = {"adaptive": _render_adaptive, "window": _render_window}[kind]
    space = Space(parameters=(Parameter(name="stream_mib", values=(4, 12, 32)),))
    return KernelTemplate(
        f"pool/{kind}", "cpp", space, {"stream_mib": 12}, partial(render, found),
        "folds a window's rows before its columns, a vector at a time",
    )  # fmt: skip


def _find(graph: Graph) -> _Pool | None:
    """Walk from the output to the input: reshapes that keep the memory order, the pool, reshapes."""
    node = only_output(graph)
    while node is not None and node.op in (*_RESHAPES, "getitem"):
        if node.op == "getitem" and node.args[1] != 0:
            return None
        node = reach(graph, node)
    kinds = _WINDOWED | _ADAPTIVE
    if node is None or node.op not in kinds:
        return None
    rank, maximum = kinds[node.op]
    source = reach(graph, node)
    while source.op in _RESHAPES:
        source = reach(graph, source)
    if source.op not in ("input", "state") or source.dtype != "float32":
        return None
    pooled = reach(graph, node).shape
    if source.shape[-1:] != pooled[-1:] or (rank > 1 and source.shape[-rank:] != pooled[-rank:] != pooled):
        rank = 1 if pooled[-2] == 1 and source.shape[-1] == pooled[-1] else 0
    result = graph.node(graph.outputs[0]).shape
    if not rank or len(source.shape) < rank or len(result) != len(source.shape):
        return None
    return _Pool(node, slot(graph, source.name), len(graph.inputs) + len(graph.state), rank, maximum)


def _render_window(pool: _Pool, configuration: Configuration) -> Rendered:
    given = pool.node.arguments()
    size = _ints(given["kernel_size"], 1)
    stride = _ints(given["stride"], 1) if given["stride"] else size
    pad = _ints(given["padding"], 0)
    dilation = _ints(given.get("dilation", 1), 1)
    windows = dict(
        zip(("DEPTH", "HEIGHT", "WIDTH"), zip(size, stride, pad, dilation, strict=True), strict=True)
    )
    return assemble(
        _TEXT, "pool",
        {name: ", ".join(map(str, window)) for name, window in windows.items()}
        | {"MAXIMUM": pool.maximum, "COUNT_PAD": bool(given.get("count_include_pad", False)),
           "DIVISOR": given.get("divisor_override") or 0}
        | _places(pool, configuration),
    )  # fmt: skip


def _render_adaptive(pool: _Pool, configuration: Configuration) -> Rendered:
    return assemble(
        _TEXT.with_name("adaptive.cpp"), "pool", {"MAXIMUM": pool.maximum} | _places(pool, configuration)
    )


def _places(pool: _Pool, configuration: Configuration) -> dict[str, object]:
    return {
        "RANK": pool.rank, "INPUT": pool.source, "OUTPUT": pool.output, "STREAM_MIB": configuration["stream_mib"],
    }  # fmt: skip


def _ints(value: object, missing: int) -> tuple[int, ...]:
    """Return three sizes, depth first; axes that the pool does not have get `missing`."""
    items = value if isinstance(value, tuple) else (value,)
    sizes = tuple(int(v) for v in items if isinstance(v, int))
    if len(sizes) == 1 and missing == 0 and value == 0:
        return (0, 0, 0)
    return (missing,) * (3 - len(sizes)) + sizes
