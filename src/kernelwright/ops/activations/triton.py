"""Gated linear units: the parts are read in place."""

from functools import partial

from ...languages.vectors import Unprintable
from ...records import Configuration, Parameter, Space
from ...tasks.capture import Graph, Node
from .._parametric import KernelTemplate, Printer, Rendered, only_output, slots
from .._parametric.triton import FLOATS, POINTERS, block, triton_printer
from ._parts import part_of


def template(graph: Graph) -> KernelTemplate | None:
    """Return the template if the output is pointwise in the parts of one input along an axis."""
    root = only_output(graph, FLOATS)
    if root is None:
        return None
    places = slots(graph)
    inputs: list[str] = []
    wholes: set[tuple[str, int, int]] = set()

    def load(name: str, offset: str) -> str:
        if name not in inputs:
            inputs.append(name)
        return f"tl.load(a{inputs.index(name)} + {offset}, mask=inside, other=0.0).to(tl.float32)"

    def special(_: Printer, node: Node) -> str | None:
        part = part_of(graph, node)
        if part is not None and node.shape == root.shape and node.dtype in FLOATS:
            wholes.add((part.source, part.axis, part.parts))
            return load(part.source, f"part + {part.index} * run")
        if node.name in places:
            if node.shape != root.shape or node.dtype not in FLOATS:
                raise Unprintable(f"{node.name} has not the output's shape")
            return load(node.name, "flat")
        return None

    printer = triton_printer(graph, special)
    result = printer.name(root.name)
    if len(wholes) != 1:
        return None
    space = Space(
        parameters=(
            Parameter(name="block", values=(256, 512, 1024, 2048, 4096)),
            Parameter(name="num_warps", values=(2, 4, 8)),
            Parameter(name="num_stages", values=(1, 2)),
        )
    )
    return KernelTemplate(
        "triton/glu", "triton", space, {"block": 1024, "num_warps": 4, "num_stages": 1},
        partial(_render, graph, printer.lines, result, inputs, next(iter(wholes))),
        "reads the parts where they lie, one pass",
    )  # fmt: skip


def _render(
    graph: Graph, lines: list[str], result: str, inputs: list[str], whole: tuple[str, int, int],
    configuration: Configuration,
) -> Rendered:  # fmt: skip
    source, axis, parts = whole
    root = graph.node(graph.outputs[0])
    names = [f"a{i}" for i in range(len(inputs))]
    signature = {name: POINTERS[graph.node(n).dtype] for name, n in zip(names, inputs, strict=True)}
    evidence = {
        "kernel": "kernel", "num_warps": configuration["num_warps"], "num_stages": configuration["num_stages"],
        "signature": signature | {"out": POINTERS[root.dtype], "run": "i32", "total": "i64"},
        "constexprs": {"BLOCK": configuration["block"]},
    }  # fmt: skip
    whole_name = names[inputs.index(source)]
    text = f'''"""A pointwise function of the parts of a tensor along an axis."""

import torch
import triton
import triton.language as tl

TRITON_EVIDENCE = [{evidence!r}]


@triton.jit
def kernel({", ".join(names)}, out, run, total, BLOCK: tl.constexpr):
    flat = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = flat < total
    part = flat // run * ({parts} * run) + flat % run
{block(lines)}
    tl.store(out + flat, {result}, mask=inside)


def run(*tensors):
    {", ".join(names)}, = {", ".join(f"tensors[{slots(graph)[n]}]" for n in inputs)},
    shape = list({whole_name}.shape)
    if not all(t.is_contiguous() for t in ({", ".join(names)},)) or shape[{axis}] % {parts}:
        raise NotImplementedError("Unsupported: tensors must be contiguous and split in equal parts")
    shape[{axis}] //= {parts}
    out = {whole_name}.new_empty(shape, dtype=torch.{root.dtype})
    length = 1
    for size in shape[{axis}:]:
        length *= size
    if out.numel():
        grid = (triton.cdiv(out.numel(), {configuration["block"]}),)
        kernel[grid]({", ".join(names)}, out, length, out.numel(), BLOCK={configuration["block"]},
            num_warps={configuration["num_warps"]}, num_stages={configuration["num_stages"]})
    return out
'''
    return Rendered(text, "run")
