"""Activations and gated products against torch's own forms and torch.compile.

    python -m benchmarks.ops.activations [--only swiglu] [--threads 1] [--rounds 15] [--out rows.jsonl]

Backward is timed through autograd for all, from the same kind of graph.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
import torch.nn.functional as F

from benchmarks.ops._turns import Case, backward, compiled, main
from kernelwright import ops

SIZES = (
    (1, 11_008),
    (16, 1024),
    (16, 11_008),
    (256, 4096),
    (512, 11_008),
    (2048, 8192),
    (4096, 4096),
    (1021, 5003),
)
Form = Callable[..., Any]
torch._dynamo.config.recompile_limit = 64
torch._functorch.config.donated_buffer = False  # a backward that is timed runs many times on one graph


def _halves(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


FORMS: dict[str, tuple[int, int, Form, Form]] = {
    "swiglu": (2, 1, ops.activations.swiglu, lambda gate, up: F.silu(gate) * up),
    "swiglu of halves": (1, 2, ops.activations.swiglu, _halves),
    "geglu": (2, 1, ops.activations.geglu, lambda gate, up: F.gelu(gate) * up),
    "silu": (1, 1, ops.activations.silu, F.silu),
    "gelu": (1, 1, ops.activations.gelu, F.gelu),
    "gelu by tanh": (
        1,
        1,
        partial(ops.activations.gelu, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
}
"""Tensors that a form takes, times n columns of each, the form here, and torch's."""


def cases(only: str) -> Iterator[Case]:
    """Make the cases of forward and backward, float32 and bfloat16."""
    for op, (takes, wide, kernel, own) in FORMS.items():
        if only not in f"{op} backward":
            continue
        for dtype in (torch.float32, torch.bfloat16):
            forms = {"kernel": kernel, "torch": own, "compile": compiled(own)}
            for rows, n in SIZES:
                tensors = [torch.randn(rows, n * wide).to(dtype) for _ in range(takes)]
                tolerance = 1e-5 if dtype is torch.float32 else 3e-2
                words = f"{rows}x{n}", str(dtype).removeprefix("torch.")
                if only in op:
                    direct = {name: partial(form, *tensors) for name, form in forms.items()}
                    yield Case(op, *words, direct, tolerance)
                back = {name: backward(form, tensors) for name, form in forms.items()}
                yield Case(f"{op} backward", *words, back, tolerance)


if __name__ == "__main__":
    main(cases, "benchmarks.ops.activations")
