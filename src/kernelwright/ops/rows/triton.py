"""Rows in registers: any graph of pointwise operators and reductions over the last axis.

Softmax, log-softmax, RMSNorm, LayerNorm, with residuals and activations around them, in one pass: a block of
rows is read once, everything happens in float32 registers, results are written once.
"""

from functools import partial

from ...languages.vectors import Unprintable
from ...records import Configuration, Parameter, Space
from ...tasks.capture import Graph, Node
from .._parametric import KernelTemplate, Printer, Rendered, reach, slots
from .._parametric.triton import FLOATS, POINTERS, block, triton_printer

_WIDEST = 32768
"""Elements of a row that fit the registers of a block of threads."""
_REDUCTIONS = {
    "aten.sum.dim_IntList": "tl.sum(tl.where(inside, {0}, 0.0), 1, keep_dims=True)",
    "aten.mean.dim": "(tl.sum(tl.where(inside, {0}, 0.0), 1, keep_dims=True) / n)",
    "aten.amax.default": 'tl.max(tl.where(inside, {0}, float("-inf")), 1, keep_dims=True)',
    "aten.amin.default": 'tl.min(tl.where(inside, {0}, float("inf")), 1, keep_dims=True)',
}


def template(graph: Graph) -> KernelTemplate | None:
    """Return the template if every output is made of whole rows and something is reduced over them."""
    shapes = {graph.node(name).shape for name in graph.outputs}
    reduces = ("softmax", "layer_norm", "mean", "sum", "amax", "amin")
    if not any(word in node.op for node in graph.ops for word in reduces) or not shapes:
        return None
    shape = max(shapes, key=len)
    rows = _Rows(graph, shape)
    outputs = [rows.output(name) for name in graph.outputs]
    width = 1 << max(4, (shape[-1] - 1).bit_length())
    counts = tuple(r for r in (1, 2, 4, 8, 16, 32) if r * width <= 16384) or (1,)
    space = Space(
        parameters=(
            Parameter(name="rows", values=counts),
            Parameter(name="num_warps", values=(1, 2, 4, 8, 16)),
            Parameter(name="num_stages", values=(1, 2)),
        )
    )
    first: Configuration = {
        "rows": max(r for r in counts if r == 1 or r * width <= 1024),
        "num_warps": 16 if width >= 16384 else 8 if width >= 4096 else 4 if width >= 1024 else 2,
        "num_stages": 1,
    }
    return KernelTemplate(
        "triton/rows", "triton", space, first, partial(_render, rows, outputs, width),
        "a row is read once and stays in registers",
    )  # fmt: skip


class _Rows:
    """Prints a graph over a block of rows."""

    def __init__(self, graph: Graph, shape: tuple[int, ...]) -> None:
        if not shape or shape[-1] > _WIDEST or shape[-1] == 0:
            raise Unprintable(f"rows of {shape} do not fit registers")
        self.graph = graph
        self.shape = shape
        self.inputs: list[str] = []
        self.printer = triton_printer(graph, self._special)
        self._places = slots(graph)

    def output(self, name: str) -> tuple[str, bool, Node]:
        """Print one output; returns its variable and whether it has only one element per row."""
        node = self.graph.node(name)
        if node.dtype not in FLOATS:
            raise Unprintable(f"output {name} is {node.dtype}")
        whole = node.shape == self.shape
        reduced = node.shape in (self.shape[:-1], (*self.shape[:-1], 1))
        if not whole and not reduced:
            raise Unprintable(f"output {name} of {node.shape} is no row of {self.shape}")
        return self.printer.name(name), reduced and not whole, node

    def _special(self, printer: Printer, node: Node) -> str | None:
        if node.name in self._places:
            return self._load(node)
        if node.op in ("aten._softmax.default", "aten._log_softmax.default"):
            return self._softmax(printer, node)
        if node.op == "getitem" and reach(self.graph, node).op == "aten.native_layer_norm.default":
            return self._layer_norm(printer, node)
        if node.op in _REDUCTIONS:
            return self._reduce(printer, node)
        if node.shape and node.shape[-1] not in (1, self.shape[-1]):
            raise Unprintable(f"{node.name} of {node.shape} is no row of {self.shape}")
        return None

    def _load(self, node: Node) -> str:
        if node.dtype not in POINTERS or node.dtype == "int64":
            raise Unprintable(f"{node.name} is {node.dtype}")
        if node.name not in self.inputs:
            self.inputs.append(node.name)
        pointer = f"a{self.inputs.index(node.name)}"
        if node.shape == self.shape:
            text = f"tl.load({pointer} + row * n + column, mask=inside, other=0.0)"
        elif node.elements == self.shape[-1] and node.shape[-1] == node.elements:
            text = f"tl.load({pointer} + column, mask=column < n, other=0.0)"
        elif node.shape == (*self.shape[:-1], 1):
            text = f"tl.load({pointer} + row, mask=row < rows, other=0.0)"
        elif node.elements == 1:
            text = f"tl.load({pointer})"
        else:
            raise Unprintable(f"{node.name} of {node.shape} is broadcast over rows of {self.shape}")
        return f"{text}.to(tl.float32)"

    def _over_rows(self, source: Node, axes: object) -> None:
        given = axes if isinstance(axes, tuple) else (axes,)
        last = len(source.shape) - 1
        if given not in ((-1,), (last,)) or source.shape != self.shape:
            raise Unprintable("a reduction over other axes than the last")

    def _reduce(self, printer: Printer, node: Node) -> str:
        source = reach(self.graph, node)
        self._over_rows(source, node.args[1])
        if not node.arguments()["keepdim"] and node.name not in self.graph.outputs:
            raise Unprintable("a reduced axis that is not kept")
        return _REDUCTIONS[node.op].format(printer.name(source.name))

    def _softmax(self, printer: Printer, node: Node) -> str:
        source = reach(self.graph, node)
        self._over_rows(source, node.args[1])
        x = printer.name(source.name)
        low = printer.let(f'tl.where(column < n, {x}, float("-inf"))')
        shifted = printer.let(f"{low} - tl.max({low}, 1, keep_dims=True)")
        power = printer.let(f"tl.exp({shifted})")
        total = printer.let(f"tl.sum({power}, 1, keep_dims=True)")
        return f"{power} / {total}" if node.op == "aten._softmax.default" else f"{shifted} - tl.log({total})"

    def _layer_norm(self, printer: Printer, node: Node) -> str:
        norm = reach(self.graph, node)
        given = norm.arguments()
        source = reach(self.graph, norm)
        self._over_rows(source, len(source.shape) - 1)
        if node.args[1] != 0 or given["normalized_shape"] != (source.shape[-1],):
            raise Unprintable("a layer norm over several axes, or its statistics")
        x = printer.name(source.name)
        mean = printer.let(f"tl.sum(tl.where(inside, {x}, 0.0), 1, keep_dims=True) / n")
        centred = printer.let(f"tl.where(inside, {x} - {mean}, 0.0)")
        variance = printer.let(f"tl.sum({centred} * {centred}, 1, keep_dims=True) / n")
        text = f"{centred} * (1.0 / tl.sqrt({variance} + {given['eps']!r}))"
        for key, sign in (("weight", "*"), ("bias", "+")):
            argument = given[key]
            if argument is not None:
                text = f"({text}) {sign} {printer.name(str(argument))}"
        return text


def _render(
    rows: _Rows, outputs: list[tuple[str, bool, Node]], width: int, configuration: Configuration
) -> Rendered:
    graph, inputs = rows.graph, rows.inputs
    names = [f"a{i}" for i in range(len(inputs))]
    results = [f"out{i}" for i in range(len(outputs))]
    signature = {name: POINTERS[graph.node(n).dtype] for name, n in zip(names, inputs, strict=True)}
    signature |= {name: POINTERS[o[2].dtype] for name, o in zip(results, outputs, strict=True)}
    signature |= {"rows": "i32", "n": "i32"}
    stores = []
    for name, (variable, reduced, _) in zip(results, outputs, strict=True):
        if reduced:
            stores.append(f"tl.store({name} + row, {variable}, mask=row < rows)")
        else:
            stores.append(f"tl.store({name} + row * n + column, {variable}, mask=inside)")
    like = next(i for i, n in enumerate(inputs) if graph.node(n).shape == rows.shape)
    count = len(graph.inputs) + len(graph.state)
    taken = ", ".join(f"tensors[{slots(graph)[n]}]" for n in inputs)
    made = [
        f"torch.empty_like({names[like]}, dtype=torch.{node.dtype})" if not reduced
        else f"{names[like]}.new_empty({_reduced_shape(rows, node, names[like])}, dtype=torch.{node.dtype})"
        for _, reduced, node in outputs
    ]  # fmt: skip
    evidence = {
        "kernel": "kernel", "signature": signature, "divisible": ["n"] if rows.shape[-1] % 16 == 0 else [],
        "constexprs": {"ROWS": configuration["rows"], "BLOCK": width},
        "num_warps": configuration["num_warps"], "num_stages": configuration["num_stages"],
    }  # fmt: skip
    text = f'''"""Pointwise operators and reductions over rows that stay in registers."""

import torch
import triton
import triton.language as tl

TRITON_EVIDENCE = [{evidence!r}]


@triton.jit
def kernel({", ".join([*names, *results])}, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < n)
{block(rows.printer.lines)}
{block(stores)}


def run(*tensors):
    if len(tensors) != {count} or not all(t.is_contiguous() for t in tensors if isinstance(t, torch.Tensor)):
        raise NotImplementedError("Unsupported: tensors must be contiguous")
    {", ".join(names)}, = {taken},
    n = {names[like]}.shape[-1]
    if n > {_WIDEST}:
        raise NotImplementedError("Unsupported: a row does not fit registers")
    rows = {names[like]}.numel() // max(1, n)
    {", ".join(results)}, = {", ".join(made)},
    if rows:
        width = max(16, triton.next_power_of_2(n))
        count = max(1, min({configuration["rows"]}, 16384 // width))
        kernel[(triton.cdiv(rows, count),)]({", ".join([*names, *results])}, rows, n, ROWS=count, BLOCK=width,
            num_warps={configuration["num_warps"]}, num_stages={configuration["num_stages"]})
    return {results[0] if len(results) == 1 else ", ".join(results)}
'''
    return Rendered(text, "run")


def _reduced_shape(rows: _Rows, node: Node, like: str) -> str:
    return f"({like}.shape[:-1] + (1,))" if node.shape == (*rows.shape[:-1], 1) else f"{like}.shape[:-1]"
