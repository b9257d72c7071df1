"""Attention in the engine's own form against eager, torch.compile, torch's own operator, OpenVINO and ONNX Runtime.

    python -m benchmarks.attention [--only causal] [--threads 1] [--seconds 2] [--clock cpu] [--out rows.jsonl]

The four lines (scores, mask, softmax, values) in float32, with the masks of language models, shared heads, and one row
of queries over a long cache (decode). `side_by_side` says how it is timed.
"""

import argparse
import math
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional as F

from benchmarks.side_by_side import Case, main

WINDOW, BLOCK = 256, 128
SHAPES = {
    "prefill": [(2, 8, 8, 1024, 1024, 64), (1, 8, 8, 512, 512, 128), (1, 12, 12, 128, 128, 64)],
    "causal": [(2, 8, 8, 1024, 1024, 64), (1, 8, 8, 2048, 2048, 128)],
    "window": [(1, 8, 8, 2048, 2048, 64)],
    "padded": [(4, 8, 8, 512, 512, 64)],
    "blocks": [(1, 8, 8, 2048, 2048, 64)],
    "grouped": [(1, 16, 4, 1024, 1024, 64)],
    "decode": [(4, 8, 8, 1, 4096, 64), (1, 8, 8, 1, 2048, 128)],
    "decode-grouped": [(4, 16, 4, 1, 4096, 64)],
}  # fmt: skip
"""Kind → batch, heads of queries, heads of keys, rows, keys, depth."""


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return attention in four lines; `mask` says which keys a row sees."""
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, -1) @ v


def causal(rows: int, keys: int) -> torch.Tensor:
    """Return which keys are at the row's position or before it."""
    return torch.arange(keys)[None] <= torch.arange(rows)[:, None]


def window(rows: int, keys: int) -> torch.Tensor:
    """Return which keys are the last of those."""
    away = torch.arange(rows)[:, None] - torch.arange(keys)[None]
    return (away >= 0) & (away < WINDOW)


Mask = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
MASKS: dict[str, Mask] = {
    "causal": lambda q, k: causal(q.shape[-2], k.shape[-2]),
    "window": lambda q, k: window(q.shape[-2], k.shape[-2]),
}


def _of(kind: str) -> tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]:
    """Return the four lines and torch's own operator of a kind; masks that are arguments come last."""
    if kind in MASKS:
        made = MASKS[kind]

        def own(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            if kind == "causal":
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return F.scaled_dot_product_attention(q, k, v, made(q, k))

        return lambda q, k, v: attended(q, k, v, made(q, k)), own
    if kind in ("padded", "blocks"):
        return (
            lambda q, k, v, m: attended(q, k, v, m > 0),
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > 0),
        )
    return (
        lambda q, k, v: attended(q, k, v, None),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1]),
    )


def _seen(kind: str, batch: int, rows: int, keys: int) -> tuple[torch.Tensor, ...]:
    """Return the mask of a kind whose mask is an argument: 1 where a row sees a key."""
    if kind == "padded":
        lengths = torch.linspace(keys // 4, keys, batch).long()
        return ((torch.arange(keys)[None] < lengths[:, None])[:, None, None].float(),)
    if kind == "blocks":
        drawn = torch.rand(rows // BLOCK, keys // BLOCK) < 0.25
        drawn |= torch.eye(rows // BLOCK, keys // BLOCK, dtype=torch.bool)
        return (drawn.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1).float(),)
    return ()


def onnx_model(shapes: list[tuple[int, ...]], kind: str) -> bytes:
    """Return the four lines as an ONNX model; a causal mask is a constant that is added."""
    from onnx import TensorProto, helper, numpy_helper

    depth, node = shapes[0][-1], helper.make_node
    held = [numpy_helper.from_array(torch.tensor(1 / math.sqrt(depth)).numpy(), "scale")]
    nodes = [
        node("Transpose", ["x1"], ["t"], perm=[0, 1, 3, 2]), node("MatMul", ["x0", "t"], ["s0"]),
        node("Mul", ["s0", "scale"], ["s1"]),
    ]  # fmt: skip
    last = "s1"
    if kind in MASKS:
        seen = (causal if kind == "causal" else window)(shapes[0][-2], shapes[1][-2])
        hidden = torch.zeros(seen.shape).masked_fill(~seen, -math.inf)
        held.append(numpy_helper.from_array(hidden.numpy(), "hidden"))
        nodes.append(node("Add", ["s1", "hidden"], ["s2"]))
        last = "s2"
    nodes += [node("Softmax", [last], ["w"], axis=-1), node("MatMul", ["w", "x2"], ["y"])]
    ends = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(shapes)]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes[0])
    graph = helper.make_graph(nodes, "attention", ends, [result], held)
    found: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()
    return found


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield every kind on every of its shapes."""
    for kind, shapes in SHAPES.items():
        for batch, heads, shared, rows, keys, depth in shapes:
            name = f"{kind} {batch}x{heads}/{shared} {rows}x{keys}x{depth}"
            if options.only not in name:
                continue
            torch.manual_seed(keys + depth)
            q = torch.randn(batch, heads, rows, depth)
            k, v = (torch.randn(batch, shared, keys, depth) for _ in range(2))
            tensors = (q, k, v, *_seen(kind, batch, rows, keys))
            lines, operator = _of(kind)
            plain = len(tensors) == 3 and heads == shared
            of = [tuple(x.shape) for x in tensors]
            model = (lambda of=of, kind=kind: onnx_model(of, kind)) if plain else None
            yield Case(name, lines, tensors, {"sdpa": operator}, model)


if __name__ == "__main__":
    main(cases, __doc__, programs=1)
