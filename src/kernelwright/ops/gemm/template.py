"""Match matrix products with pointwise epilogues and render their kernel.

Vectors, batches and diagonals are left to rows and schedules, which are as fast or faster
(`python -m benchmarks.kernel_pairs --only matmul --schedules 1 --all-templates`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...languages.vectors import Term, Unprintable
from ...records import Configuration, Parameter, Space, Workload
from ...tasks.capture import Graph, Node
from .._parametric import KernelTemplate, Rendered, Tree, assemble, forms, only_output, reach, slots
from . import triton
from ._operand import Operand, in_memory_order, operand

_TEXT = Path(__file__).with_name("template.cpp")
_PRODUCTS = ("aten.mm.default", "aten.bmm.default", "aten.addmm.default")
_TRIANGLES = {"aten.triu.default": 1, "aten.tril.default": -1}


@dataclass(frozen=True)
class _Product:
    """The factors, the epilogue and the triangle that is kept."""

    left: Operand
    right: Operand
    statements: str
    extras: tuple[int, ...]
    triangle: int
    diagonal: int
    output: int


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:  # noqa: ARG001
    """Yield templates if the graph is one product of two inputs and a pointwise epilogue."""
    yield from forms(graph, template, triton.template)


def template(graph: Graph) -> KernelTemplate | None:
    """Return the form in C++."""
    found = _find(graph)
    if found is None:
        return None
    space = Space(
        parameters=(
            Parameter(name="rows", values=(4, 6, 8, 12)),
            Parameter(name="depth", values=(128, 256, 512)),
            Parameter(name="block_rows", values=(48, 192, 480)),
            Parameter(name="few", values=(4, 8, 16, 32)),
            Parameter(name="stream_mib", values=(4, 12, 32)),
        )
    )
    first: Configuration = {"rows": 12, "depth": 256, "block_rows": 192, "few": 32, "stream_mib": 12}
    return KernelTemplate(
        "matmul/tiles", "cpp", space, first, partial(_render, found),
        "register tiles, the epilogue in registers, no packing where a factor has few rows",
    )  # fmt: skip


def _find(graph: Graph) -> _Product | None:
    root = only_output(graph)
    triangle, diagonal = 0, 0
    if root is not None and root.op in _TRIANGLES:
        triangle = _TRIANGLES[root.op]
        diagonal = int(str(root.arguments()["diagonal"]))
        root = reach(graph, root)
    if root is None or root.dtype != "float32":
        return None
    products = [node for node in graph.ops if node.op in _PRODUCTS]
    if len(products) != 1 or (products[0].op == "aten.bmm.default" and products[0].shape[0] != 1):
        return None
    (product,) = products
    first = 1 if product.op == "aten.addmm.default" else 0
    left = operand(graph, reach(graph, product, first))
    right = operand(graph, reach(graph, product, first + 1))
    if left is None or right is None:
        return None
    printed = _epilogue(graph, root, product)
    return _Product(left, right, *printed, triangle, diagonal, len(graph.inputs) + len(graph.state))


def _epilogue(graph: Graph, root: Node, product: Node) -> tuple[str, tuple[int, ...]]:
    """Print what happens to the accumulator; raises `Unprintable`."""
    places = slots(graph)
    extras: list[int] = []
    columns = product.shape[-1]

    def extra(node: Node) -> Term:
        if node.dtype != "float32":
            raise Unprintable(f"{node.name} is not float32")
        if places[node.name] not in extras:
            extras.append(places[node.name])
        pointer = f"a{extras.index(places[node.name])}"
        if node.elements == 1:
            return Term(f"kw::splat({pointer}[0])")
        if node.shape[-1:] == (columns,) and node.elements == columns:
            return Term(f"kw::load({pointer} + n, lanes)")
        if node.shape == root.shape:
            return Term(f"kw::load({pointer} + flat, lanes)")
        raise Unprintable(
            f"{node.name} of {node.shape} is broadcast in a way that the epilogue does not read"
        )

    def leaf(node: Node) -> Term | None:
        if node.name in places:
            return extra(node)
        behind = in_memory_order(graph, node)
        if behind.name != product.name:
            return None
        if product.op != "aten.addmm.default":
            return Term("acc")
        given = product.arguments()
        if given["beta"] != 1 or given["alpha"] != 1:
            raise Unprintable("addmm with factors")
        return Term(f"(acc + {extra(reach(graph, product)).as_float()})")

    tree = Tree(graph, leaf)
    term = tree.term(root.name)
    return " ".join([*tree.lines, f"return {term.as_float()};"]), tuple(extras)


def _render(found: _Product, configuration: Configuration) -> Rendered:
    constants = {
        "LEFT": found.left.slot, "RIGHT": found.right.slot, "OUTPUT": found.output,
        "LEFT_SWAPPED": found.left.swapped, "RIGHT_SWAPPED": found.right.swapped,
        "TRIANGLE": found.triangle, "DIAGONAL": found.diagonal, "STATEMENTS": found.statements,
        "FIELDS": " ".join(f"const float* a{i};" for i in range(len(found.extras))),
        "ARGUMENTS": ", ".join(f"args.tensor<const float>({place}).data()" for place in found.extras),
    }  # fmt: skip
    return assemble(_TEXT, "matmul", constants | {k.upper(): v for k, v in configuration.items()})
