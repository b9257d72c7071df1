"""Embeddings and bags, forward and backward, against torch's own and torch.compile.

    python -m benchmarks.ops.embedding [--only bag] [--threads 1] [--rounds 15] [--out rows.jsonl]

Backward is timed through autograd for all, from the same kind of graph; gradients are dense. Bags are not compiled:
torch.compile calls the same kernel for them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
import torch.nn.functional as F

from benchmarks.ops._turns import Case, backward, compiled, main
from kernelwright.ops import embedding

SIZES = (
    (1000, 64, 512), (32_000, 64, 2048), (32_000, 512, 4096), (50_257, 768, 4096), (200_000, 64, 40_000),
    (1000, 16, 10_000), (10_000, 128, 8192), (100_000, 256, 20_000),
)  # fmt: skip
"""Rows of the table, columns, ids."""
BAG = 20
"""Ids of a bag."""
Form = Callable[..., Any]
torch._dynamo.config.recompile_limit = 64
torch._functorch.config.donated_buffer = False  # a backward that is timed runs many times on one graph


def _forms(op: str, ids: torch.Tensor, offsets: torch.Tensor) -> tuple[Form, Form]:
    """Return the form here, and torch's, as functions of the table."""
    if op == "embedding":
        return partial(embedding.embedding, ids), partial(F.embedding, ids)
    mode = op.split()[1]
    return (
        lambda weight: embedding.embedding_bag(ids, weight, offsets, mode=mode),
        lambda weight: F.embedding_bag(ids, weight, offsets, mode=mode),
    )


def cases(only: str) -> Iterator[Case]:
    """Make the cases of forward and backward, float32 and bfloat16."""
    for op in ("embedding", "bag sum", "bag mean", "bag max"):
        if only not in f"{op} backward":
            continue
        for dtype in (torch.float32, torch.bfloat16):
            for rows, columns, n in SIZES:
                weight, ids = torch.randn(rows, columns).to(dtype), torch.randint(rows, (n,))
                mine, theirs = _forms(op, ids, torch.arange(0, n, BAG))
                forms = {"kernel": mine, "torch": theirs}
                if op == "embedding":
                    forms["compile"] = compiled(theirs)
                tolerance = 1e-5 if dtype is torch.float32 else 3e-2
                words = f"{rows}x{columns},{n}", str(dtype).removeprefix("torch.")
                if only in op:
                    yield Case(op, *words, {k: partial(form, weight) for k, form in forms.items()}, tolerance)
                if op == "bag max" and dtype is torch.bfloat16:
                    continue  # ties of 16 bits go to other rows in torch
                back = {k: backward(form, [weight]) for k, form in forms.items()}
                yield Case(f"{op} backward", *words, back, tolerance)


if __name__ == "__main__":
    main(cases, "benchmarks.ops.embedding")
