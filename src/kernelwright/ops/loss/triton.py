"""Cross-entropy over a large vocabulary: one pass over the logits, a running maximum and a rescaled sum."""

from functools import partial

from ...records import Configuration, Parameter, Space
from ...tasks.capture import Graph
from .._parametric import KernelTemplate, Rendered, only_output, reach, slots
from .._parametric.triton import FLOATS, POINTERS

_MEANS = {0: "none", 1: "mean", 2: "sum"}


def template(graph: Graph) -> KernelTemplate | None:
    """Return the template if the graph is `cross_entropy(logits, classes)` of matrix and vector."""
    root = only_output(graph, FLOATS)
    if root is None or root.op != "getitem" or root.args[1] != 0:
        return None
    loss = reach(graph, root)
    if loss.op != "aten.nll_loss_forward.default" or loss.args[2] is not None:
        return None
    logits, target = reach(graph, loss), reach(graph, loss, 1)
    if logits.op != "aten._log_softmax.default" or logits.args[1] not in (1, -1):
        return None
    x = reach(graph, logits)
    places = slots(graph)
    if x.name not in places or target.name not in places or len(x.shape) != 2 or target.dtype != "int64":
        return None
    space = Space(
        parameters=(
            Parameter(name="block", values=(256, 1024, 2048, 4096, 8192)),
            Parameter(name="num_warps", values=(1, 2, 4, 8, 16)),
            Parameter(name="num_stages", values=(1, 2, 3)),
        )
    )
    width = 1 << max(8, (x.shape[1] - 1).bit_length())
    block = next(b for b in (256, 1024, 2048, 4096) if b >= width or b == 4096)
    first: Configuration = {"block": block, "num_warps": 8 if block >= 2048 else 4, "num_stages": 2}
    settings: dict[str, object] = {
        "x": places[x.name], "target": places[target.name], "ignore": loss.args[4],
        "mean": _MEANS[int(str(loss.args[3]))], "dtype": x.dtype, "divisible": x.shape[1] % 16 == 0,
    }  # fmt: skip
    return KernelTemplate(
        "triton/loss", "triton", space, first, partial(_render, settings),
        "the logits are read once and the probabilities never written",
    )  # fmt: skip


def _render(settings: dict[str, object], configuration: Configuration) -> Rendered:
    pointer = POINTERS[str(settings["dtype"])]
    evidence = [
        {
            "kernel": "losses", "num_warps": configuration["num_warps"], "num_stages": configuration["num_stages"],
            "signature": {"x": pointer, "target": "*i64", "loss": "*fp32", "n": "i32", "ignore": "i32"},
            "constexprs": {"BLOCK": configuration["block"]}, "divisible": ["n"] if settings["divisible"] else [],
        },
        {
            "kernel": "fold", 
            "signature": {"loss": "*fp32", "target": "*i64", "out": pointer, "rows": "i32", "ignore": "i32"},
            "constexprs": {"MEAN": True, "BLOCK": 1024}, "num_warps": 4,
        },
    ]  # fmt: skip
    mean = settings["mean"]
    text = f'''"""Cross-entropy: one pass over the logits, then a fold of the rows' losses."""

import torch
import triton
import triton.language as tl

TRITON_EVIDENCE = {evidence!r}


@triton.jit
def losses(x, target, loss, n, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * n
    column = tl.arange(0, BLOCK)
    high = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        inside = start + column < n
        value = tl.load(x + start + column, mask=inside, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(high, value)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(high - safe) + tl.exp(value - safe)
        high = higher
    top = tl.max(high, 0)
    total = tl.sum(tl.where(high == float("-inf"), 0.0, total * tl.exp(high - top)), 0)
    label = tl.load(target + row)
    counts = label != ignore
    chosen = tl.load(x + tl.where(counts, label, 0)).to(tl.float32)
    tl.store(loss + row, tl.where(counts, tl.log(total) + (top - chosen), 0.0))


@triton.jit
def fold(loss, target, out, rows, ignore, MEAN: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for start in range(0, rows, BLOCK):
        inside = start + index < rows
        total += tl.load(loss + start + index, mask=inside, other=0.0)
        label = tl.load(target + start + index, mask=inside, other=ignore)
        count += tl.where(inside & (label != ignore), 1.0, 0.0)
    result = tl.sum(total, 0)
    if MEAN:
        result = result / tl.sum(count, 0)
    tl.store(out, result)


def run(*tensors):
    x, target = tensors[{settings["x"]}], tensors[{settings["target"]}]
    if x.dim() != 2 or not x.is_contiguous() or not target.is_contiguous():
        raise NotImplementedError("Unsupported: logits must be a contiguous matrix")
    rows, n = x.shape
    loss = torch.empty(rows, dtype=torch.float32, device=x.device)
    if rows:
        losses[(rows,)](x, target, loss, n, {settings["ignore"]}, BLOCK={configuration["block"]},
            num_warps={configuration["num_warps"]}, num_stages={configuration["num_stages"]})
    if {mean == "none"}:
        return loss.to(x.dtype)
    out = torch.empty((), dtype=x.dtype, device=x.device)
    fold[(1,)](loss, target, out, rows, {settings["ignore"]}, MEAN={mean == "mean"}, BLOCK=1024, num_warps=4)
    return out
'''
    return Rendered(text, "run")
