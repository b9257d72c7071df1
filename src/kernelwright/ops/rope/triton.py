"""Rotary position embedding: both parts of a row in one pass."""

from functools import partial

from ...languages.vectors import Term
from ...records import Configuration, Parameter, Space
from ...tasks.capture import Graph
from .._parametric import KernelTemplate, Rendered
from .._parametric.triton import TRITON, block
from ._parts import Dialect, Row, rows_of


def template(graph: Graph) -> KernelTemplate | None:
    """Return the template if every output is a pointwise function of the two parts of rows."""
    _, neighbours = rows_of(graph)
    rows, _ = rows_of(graph, _dialect(neighbours))
    width = 1 << max(3, (max(parts.shape[-1] for parts, _, _ in rows) // 2 - 1).bit_length())
    counts = tuple(r for r in (1, 2, 4, 8, 16, 32, 64) if r * width <= 4096) or (1,)
    space = Space(
        parameters=(
            Parameter(name="rows", values=counts),
            Parameter(name="num_warps", values=(1, 2, 4, 8)),
            Parameter(name="num_stages", values=(1, 2)),
        )
    )
    first: Configuration = {
        "rows": max(r for r in counts if r == 1 or r * width <= 512),
        "num_warps": 4,
        "num_stages": 1,
    }
    return KernelTemplate(
        "triton/rope", "triton", space, first,
        partial(_render, rows, neighbours, width, len(graph.inputs) + len(graph.state)),
        "rotates both parts of a row in one pass, tables broadcast by strides",
    )  # fmt: skip


def _dialect(neighbours: bool) -> Dialect:
    def load_part(leaf: int, part: int) -> str:
        offset = f"2 * j + {part}" if neighbours else f"{part} * h + j"
        return f"tl.load(x{leaf} + {offset}, mask=inside, other=0.0)"

    def operator(op: str, args: list[Term | float], kwargs: dict[str, object]) -> str:
        return TRITON.operator(op, [a.text if isinstance(a, Term) else a for a in args], kwargs)

    return Dialect(
        load_part, lambda leaf: f"tl.load(x{leaf} + j, mask=inside, other=0.0)", operator, "{name} = {text}"
    )


def _render(
    rows: list[Row], neighbours: bool, width: int, arguments: int, configuration: Configuration
) -> Rendered:
    kernels, evidence, calls = [], [], []
    for i, row in enumerate(rows):
        kernel, entry = _kernel(row, i, neighbours, width, configuration)
        kernels.append(kernel)
        evidence.append(entry)
        calls.append(_call(row, i))
    names = ", ".join(f"out{i}" for i in range(len(rows)))
    text = f'''"""Rotary position embedding: {"even and odd elements" if neighbours else "halves"} of rows."""

import triton
import triton.language as tl

TRITON_EVIDENCE = {evidence!r}

{"".join(kernels)}

def shape_of(leaves, axes):
    """Sizes of an output: the largest size of each axis, the last axis twice as long as a part."""
    sizes = [1] * axes
    for tensor, follows, _ in leaves:
        for k, a in enumerate(follows):
            sizes[k] = max(sizes[k], tensor.shape[a] if a >= 0 else 1)
    half = max(tensor.shape[-1] // (2 if full else 1) for tensor, _, full in leaves)
    if any(tensor.shape[-1] != (2 * half if full else half) for tensor, _, full in leaves):
        raise NotImplementedError("Unsupported: an input that is neither as long as a row nor as one of its parts")
    return sizes, half


def strides_of(tensor, follows):
    if tensor.stride(-1) != 1 and tensor.shape[-1] > 1:
        raise NotImplementedError("Unsupported: the last axis must be contiguous")
    return [0 if a < 0 or tensor.shape[a] == 1 else tensor.stride(a) for a in follows]


def launch(kernel, leaves, axes):
    sizes, half = shape_of(leaves, axes)
    out = leaves[0][0].new_empty([*sizes, 2 * half])
    rows = out.numel() // max(1, 2 * half)
    if rows:
        width = max(8, triton.next_power_of_2(half))
        count = max(1, min({configuration["rows"]}, 4096 // width))
        strides = [s for tensor, follows, _ in leaves for s in strides_of(tensor, follows)]
        kernel[(triton.cdiv(rows, count),)](*(t for t, _, _ in leaves), out, rows, half, *sizes, *strides,
            ROWS=count, HALF=width, num_warps={configuration["num_warps"]}, num_stages={configuration["num_stages"]})
    return out


def run(*tensors):
    if len(tensors) != {arguments}:
        raise NotImplementedError("Unsupported: other arguments")
{block(calls)}
    return {names}
'''
    return Rendered(text, "run")


def _kernel(
    row: Row, index: int, neighbours: bool, width: int, configuration: Configuration
) -> tuple[str, dict[str, object]]:
    parts, first, second = row
    axes = len(parts.shape) - 1
    leaves = range(len(parts.leaves))
    sizes = [f"s{k}" for k in range(axes)]
    strides = [f"st{leaf}_{k}" for leaf in leaves for k in range(axes)]
    arguments = [*(f"a{leaf}" for leaf in leaves), "out", "rows", "h", *sizes, *strides]
    lines = ["rest = row"]
    for k in reversed(range(axes)):
        lines += [f"i{k} = rest % s{k}", f"rest = rest // s{k}"]
    for leaf in leaves:
        offset = " + ".join(f"i{k} * st{leaf}_{k}" for k in range(axes)) or "0"
        lines.append(f"x{leaf} = a{leaf} + {offset}")
    places = ("2 * j", "2 * j + 1") if neighbours else ("j", "h + j")
    lines += parts.lines
    lines += [
        f"tl.store(out + row * 2 * h + {p}, {v}, mask=inside)"
        for p, v in zip(places, (first, second), strict=True)
    ]
    text = f"""
@triton.jit
def rotate{index}({", ".join(arguments)}, ROWS: tl.constexpr, HALF: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.arange(0, HALF)[None, :]
    inside = (row < rows) & (j < h)
{block(lines)}

"""
    pointers = {name: "*fp32" for name in arguments if name.startswith("a") or name == "out"}
    numbers = {name: "i32" for name in arguments if name not in pointers}
    entry: dict[str, object] = {
        "kernel": f"rotate{index}", "signature": {n: pointers.get(n) or numbers[n] for n in arguments},
        "constexprs": {"ROWS": configuration["rows"], "HALF": width},
        "num_warps": configuration["num_warps"], "num_stages": configuration["num_stages"],
    }  # fmt: skip
    return text, entry


def _call(row: Row, index: int) -> str:
    parts, _, _ = row
    axes = len(parts.shape) - 1
    leaves = ", ".join(
        f"(tensors[{place}], {follows[:axes]!r}, {leaf in parts.full})"
        for leaf, (place, follows) in enumerate(parts.leaves)
    )
    return f"out{index} = launch(rotate{index}, [{leaves}], {axes})"
