"""Rotary embedding against what models write of it in torch, eager and by torch.compile.

    python -m benchmarks.ops.rope [--only halves] [--threads 1] [--rounds 15] [--out rows.jsonl]

torch has no fused form of its own. Backward is timed through autograd for all, from the same kind of graph.
"""

from collections.abc import Iterator
from functools import partial

import torch
import torch._dynamo
import torch._functorch.config

from benchmarks.ops._turns import Case, backward, compiled, main
from kernelwright import ops

SIZES = (
    (1, 1, 32, 8, 128), (16, 1, 32, 8, 128), (1, 128, 16, 16, 64), (1, 512, 32, 8, 128), (1, 2048, 32, 8, 128),
    (1, 4096, 32, 32, 128), (4, 1024, 16, 4, 256), (2, 1531, 12, 12, 80),
)  # fmt: skip
"""Batch, length, heads, heads of keys, size."""
torch._dynamo.config.recompile_limit = 64
torch._functorch.config.donated_buffer = False  # a backward that is timed runs many times on one graph

Two = tuple[torch.Tensor, torch.Tensor]


def _halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.float().chunk(2, -1)
    c, s = cos[: x.shape[1], None], sin[: x.shape[1], None]
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)


def _neighbours(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = cos[: x.shape[1], None], sin[: x.shape[1], None]
    return torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2).to(x.dtype)


def halves(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Two:
    """Turn pairs of the two halves of a head."""
    return _halves(q, cos, sin), _halves(k, cos, sin)


def neighbours(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Two:
    """Turn pairs of neighbours."""
    return _neighbours(q, cos, sin), _neighbours(k, cos, sin)


def cases(only: str) -> Iterator[Case]:
    """Make the cases of forward and backward, float32 and bfloat16."""
    for name, own in (("halves", halves), ("neighbours", neighbours)):
        for dtype in (torch.float32, torch.bfloat16):
            turn = partial(ops.rope.rope, interleaved=name == "neighbours")
            forms = {"kernel": turn, "torch": own, "compile": compiled(own)}
            for batch, length, heads, keys, size in SIZES:
                q, k = (torch.randn(batch, length, h, size).to(dtype) for h in (heads, keys))
                theta = torch.randn(length, size // 2)
                tables = theta.cos(), theta.sin()
                words = f"{batch}x{length}x{heads}+{keys}x{size}", str(dtype).removeprefix("torch.")
                tolerance = 1e-5 if dtype is torch.float32 else 3e-2
                if only in f"rope {name}":
                    direct = {form: partial(f, q, k, *tables) for form, f in forms.items()}
                    yield Case(f"rope {name}", *words, direct, tolerance)
                if only in f"rope {name} backward":
                    back = {
                        form: backward(lambda a, b, f=f, t=tables: f(a, b, *t), [q, k])
                        for form, f in forms.items()
                    }
                    yield Case(f"rope {name} backward", *words, back, tolerance)


if __name__ == "__main__":
    main(cases, "benchmarks.ops.rope")
