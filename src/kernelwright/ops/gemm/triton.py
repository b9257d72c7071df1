"""Matrix products with a pointwise epilogue: tiles of the output, ordered so that neighbours share factors."""

from functools import partial

from ...languages.vectors import Unprintable
from ...records import Configuration, Parameter, Space
from ...tasks.capture import Graph, Node
from .._parametric import KernelTemplate, Printer, Rendered, only_output, reach, slots
from .._parametric.triton import POINTERS, block, triton_printer
from ._operand import Operand, in_memory_order, operand

_PRODUCTS = ("aten.mm.default", "aten.addmm.default", "aten.bmm.default")


def template(graph: Graph) -> KernelTemplate | None:
    """Return the template if the graph is one product of two inputs and a pointwise epilogue."""
    root = only_output(graph)
    products = [node for node in graph.ops if node.op in _PRODUCTS]
    if root is None or len(products) != 1:
        return None
    product = products[0]
    first = 1 if product.op == "aten.addmm.default" else 0
    left = operand(graph, reach(graph, product, first))
    right = operand(graph, reach(graph, product, first + 1))
    batched = product.op == "aten.bmm.default" and product.shape[0] != 1
    if left is None or right is None or (batched and not (left.batched and right.batched)):
        return None
    extras: list[str] = []
    printer = triton_printer(graph, partial(_special, graph, root, product, extras))
    result = printer.name(root.name)
    space = Space(
        parameters=(
            Parameter(name="block_m", values=(16, 32, 64, 128)),
            Parameter(name="block_n", values=(16, 32, 64, 128, 256)),
            Parameter(name="block_k", values=(16, 32, 64)),
            Parameter(name="group", values=(1, 4, 8)),
            Parameter(name="num_warps", values=(2, 4, 8)),
            Parameter(name="num_stages", values=(2, 3, 4)),
        ),
        constraints=(
            "block_m * block_n <= 128 * num_warps * 32",
            "(block_m + block_n) * block_k * 4 * num_stages <= 160000",
        ),
    )
    rows = product.shape[-2]
    first_choice: Configuration = {
        "block_m": 64 if rows >= 64 else 32 if rows > 16 else 16, "block_n": 64 if product.shape[-1] >= 64 else 32,
        "block_k": 32, "group": 8, "num_warps": 4, "num_stages": 3,
    }  # fmt: skip
    return KernelTemplate(
        "triton/matmul", "triton", space, first_choice,
        partial(_render, graph, printer.lines, result, extras, left, right, batched),
        "tiles with the epilogue in registers",
    )  # fmt: skip


def _special(
    graph: Graph, root: Node, product: Node, extras: list[str], printer: Printer, node: Node
) -> str | None:
    """Return the accumulator or the load of an extra tensor."""
    if node.name in slots(graph):
        if node.dtype != "float32":
            raise Unprintable(f"{node.name} is {node.dtype}")
        if node.name not in extras:
            extras.append(node.name)
        pointer = f"e{extras.index(node.name)}"
        if node.elements == 1:
            return f"tl.load({pointer})"
        if node.elements == node.shape[-1] == product.shape[-1]:
            return f"tl.load({pointer} + column, mask=column < n, other=0.0)"
        if node.shape == root.shape:
            return f"tl.load({pointer} + flat, mask=inside, other=0.0)"
        raise Unprintable(
            f"{node.name} of {node.shape} is broadcast in a way that the epilogue does not read"
        )
    if in_memory_order(graph, node).name != product.name:
        return None
    if product.op != "aten.addmm.default":
        return "acc"
    given = product.arguments()
    if given["beta"] != 1 or given["alpha"] != 1:
        raise Unprintable("addmm with factors")
    return f"acc + {printer.name(reach(graph, product).name)}"


def _render(
    graph: Graph, lines: list[str], result: str, extras: list[str], left: Operand, right: Operand, batched: bool,
    configuration: Configuration,
) -> Rendered:  # fmt: skip
    root = graph.node(graph.outputs[0])
    names = [f"e{i}" for i in range(len(extras))]
    integers = ["m", "n", "k", "sam", "sak", "sbk", "sbn", "batch_a", "batch_b"]
    pointers = {name: POINTERS["float32"] for name in ("a", "b", *names, "out")}
    blocks = {key.upper(): configuration[key] for key in ("block_m", "block_n", "block_k", "group")}
    unit = {("sak" if not left.swapped else "sam"): 1, ("sbn" if not right.swapped else "sbk"): 1}
    evidence = {
        "kernel": "kernel", "signature": pointers | {name: "i32" for name in integers if name not in unit},
        "constexprs": blocks | unit, "num_warps": configuration["num_warps"],
        "num_stages": configuration["num_stages"],
    }  # fmt: skip
    given = {name: f"tensors[{slots(graph)[extra]}]" for name, extra in zip(names, extras, strict=True)}
    shape = "a.shape[:-1] + (n,)" if len(root.shape) > 2 and not left.swapped else "(m, n)"
    if batched:
        shape = "b.shape[:-2] + (m, n)"
    text = f'''"""A matrix product with its epilogue in registers."""

import torch
import triton
import triton.language as tl

TRITON_EVIDENCE = [{evidence!r}]


@triton.jit
def kernel(a, b, {"".join(name + ", " for name in names)}out, m, n, k, sam, sak, sbk, sbn, batch_a, batch_b,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    # Tiles go down GROUP rows of tiles before the next column, so that neighbours find both factors in cache.
    tile, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    down, across = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    band = tile // (GROUP * across)
    height = min(down - band * GROUP, GROUP)
    row = (band * GROUP + tile % (GROUP * across) % height) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = (tile % (GROUP * across)) // height * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    depth = tl.arange(0, BLOCK_K)
    pa = a + batch * batch_a + row.to(tl.int64) * sam + depth[None, :] * sak
    pb = b + batch * batch_b + depth[:, None].to(tl.int64) * sbk + column * sbn
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, k, BLOCK_K):
        left = tl.load(pa, mask=(row < m) & (start + depth[None, :] < k), other=0.0)
        right = tl.load(pb, mask=(column < n) & (start + depth[:, None] < k), other=0.0)
        acc += tl.dot(left, right, input_precision="ieee")
        pa += BLOCK_K * sak
        pb += BLOCK_K * sbk
    inside = (row < m) & (column < n)
    flat = batch * m * n + row.to(tl.int64) * n + column
{block(lines)}
    tl.store(out + flat, {result}, mask=inside)


def run(*tensors):
    a, b = tensors[{left.slot}], tensors[{right.slot}]
    if not all(t.is_contiguous() for t in tensors if isinstance(t, torch.Tensor)):
        raise NotImplementedError("Unsupported: tensors must be contiguous")
{block([f"{name} = {text}" for name, text in given.items()])}
    k = a.shape[{-2 if left.swapped else -1}]
    n = b.shape[{-2 if right.swapped else -1}]
    batch = {"b.numel() // (k * n)" if batched else "1"}
    m = a.numel() // k // batch
    out = a.new_empty({shape})
    if out.numel():
        grid = (triton.cdiv(m, {configuration["block_m"]}) * triton.cdiv(n, {configuration["block_n"]}), batch)
        kernel[grid](a, b, {"".join(name + ", " for name in names)}out, m, n, k,
            {"1, m" if left.swapped else "k, 1"}, {"1, k" if right.swapped else "n, 1"}, m * k, k * n,
            {", ".join(f"{key}={value}" for key, value in blocks.items())},
            num_warps={configuration["num_warps"]}, num_stages={configuration["num_stages"]})
    return out
'''
    return Rendered(text, "run")
