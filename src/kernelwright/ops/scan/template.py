"""Match cumulative sums and products and render their kernel."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...languages.vectors import C_TYPES, Term, Unprintable
from ...records import Configuration, Parameter, Space, Workload
from ...tasks.capture import Graph, Node, Ref
from .._parametric import KernelTemplate, Rendered, Tree, assemble, forms, only_output, reach, slots

_TEXT = Path(__file__).with_name("template.cpp")
_SCANS = {"aten.cumsum.default": False, "aten.cumprod.default": True}


@dataclass(frozen=True)
class _Scan:
    """A scan, the pointwise expression it runs over, and the variant."""

    axis: int
    product: bool
    reverse: bool = False
    exclusive: bool = False
    statements: str = ""
    inputs: tuple[tuple[int, str], ...] = ()
    plain: bool = False
    output: int = 0


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield the template if the graph is one cumulative sum or product over pointwise values."""
    yield from forms(graph, template)


def template(graph: Graph) -> KernelTemplate | None:
    """Return the form in C++."""
    found = _find(graph)
    if found is None:
        return None
    inner = found.axis < len(graph.node(graph.outputs[0]).shape) - 1
    parameters = [Parameter(name="stream_mib", values=(4, 12, 32))]
    first: Configuration = {"stream_mib": 12}
    if inner:
        parameters.append(Parameter(name="tile", values=(256, 512, 1024, 2048, 4096)))
        first["tile"] = 1024
    else:
        parameters.append(Parameter(name="unroll", values=(1, 2, 4, 8)))
        parameters.append(Parameter(name="part_kib", values=(32, 64, 256)))
        first |= {"unroll": 4, "part_kib": 64}
    return KernelTemplate(
        "scan/columns" if inner else "scan/rows", "cpp", Space(parameters=tuple(parameters)), first,
        partial(_render, found), "one pass; a vector is scanned in registers, the carry is kept in double",
    )  # fmt: skip


def _find(graph: Graph) -> _Scan | None:
    node = only_output(graph)
    flipped = None
    if node is not None and node.op == "aten.flip.default":
        flipped, node = node.args[1], reach(graph, node)
    if node is None or node.op not in _SCANS:
        return None
    axis = node.args[1]
    if not isinstance(axis, int) or not node.shape:
        return None
    axis %= len(node.shape)
    scan = _Scan(axis, _SCANS[node.op], output=len(graph.inputs) + len(graph.state))
    source = reach(graph, node)
    if flipped is not None:
        if flipped not in ((axis,), (axis - len(node.shape),)) or source.op != "aten.flip.default":
            return None
        if source.args[1] not in ((axis,), (axis - len(node.shape),)):
            return None
        scan, source = replace(scan, reverse=True), reach(graph, source)
    elif _is_exclusive(graph, source, axis):
        scan, source = replace(scan, exclusive=True), _behind_zeros(graph, source)
    return _with_values(scan, graph, source)


def _is_exclusive(graph: Graph, node: Node, axis: int) -> bool:
    """Whether it is `cat([zeros, x], axis)`, possibly without the last of axis 0 or of the axis."""
    if node.op == "aten.slice.Tensor":
        given = node.arguments()
        cat = reach(graph, node)
        cut = given["dim"] in (0, axis, axis - len(node.shape)) and given["start"] in (0, None)
        size = cat.shape[int(str(given["dim"]))] if cut else 0
        if not cut or given["end"] not in (-1, size - 1) or given["step"] != 1:
            return False
        node = cat
    if node.op != "aten.cat.default" or not isinstance(node.args[0], tuple) or len(node.args[0]) != 2:
        return False
    zeros = node.args[0][0]
    dim = node.args[1] if len(node.args) > 1 else 0
    if not isinstance(zeros, Ref) or not isinstance(dim, int) or dim % len(node.shape) != axis:
        return False
    full = graph.node(zeros.name)
    filled = full.op in ("aten.full_like.default", "aten.full.default") and full.args[1] == 0
    return filled and full.shape[axis] == 1


def _behind_zeros(graph: Graph, node: Node) -> Node:
    cat = reach(graph, node) if node.op == "aten.slice.Tensor" else node
    parts = cat.args[0]
    if not isinstance(parts, tuple) or not isinstance(parts[1], Ref):
        raise KeyError("nothing is scanned")
    return graph.node(parts[1].name)


def _with_values(scan: _Scan, graph: Graph, root: Node) -> _Scan | None:
    """Print what is scanned, element by element of inputs that all have its shape."""
    places = slots(graph)
    used: list[tuple[int, str]] = []

    def leaf(node: Node) -> Term | None:
        if node.name not in places:
            return None
        if node.shape != root.shape or node.dtype not in ("float32", "bool"):
            raise Unprintable(f"{node.name} is not {root.shape} of float32 or bool")
        entry = (places[node.name], C_TYPES[node.dtype])
        if entry not in used:
            used.append(entry)
        return Term(f"kw::load(a{used.index(entry)} + i, lanes)")

    tree = Tree(graph, leaf)
    term = tree.term(root.name)
    if scan.product and scan.exclusive:
        return None
    statements = " ".join([*tree.lines, f"return {term.as_float()};"])
    plain = root.name in places and root.dtype == "float32"
    return replace(scan, statements=statements, inputs=tuple(used), plain=plain)


def _render(scan: _Scan, configuration: Configuration) -> Rendered:
    fields = " ".join(f"const {c}* a{i};" for i, (_, c) in enumerate(scan.inputs))
    arguments = ", ".join(f"args.tensor<const {c}>({place}).data()" for place, c in scan.inputs)
    constants = {
        "PRODUCT": scan.product, "REVERSE": scan.reverse, "EXCLUSIVE": scan.exclusive, "AXIS": scan.axis,
        "PLAIN": scan.plain, "FIELDS": fields, "STATEMENTS": scan.statements, "ARGUMENTS": arguments,
        "INPUT": scan.inputs[0][0], "OUTPUT": scan.output, "UNROLL": configuration.get("unroll", 4),
        "TILE": configuration.get("tile", 1024), "PART_KIB": configuration.get("part_kib", 64),
        "STREAM_MIB": configuration["stream_mib"],
    }  # fmt: skip
    return assemble(_TEXT, "scan", constants)
