"""Norms against torch's own forms and torch.compile.

    python -m benchmarks.ops.norms [--only rms] [--threads 1] [--rounds 15] [--out rows.jsonl]

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
    (1, 4096),
    (64, 4096),
    (2048, 1024),
    (4096, 4096),
    (8192, 4096),
    (32768, 512),
    (100_000, 128),
    (2053, 4097),
)
IMAGES = (
    (1, 320, 16),
    (2, 320, 32),
    (1, 128, 128),
    (4, 320, 64),
    (1, 512, 128),
    (1, 256, 256),
    (8, 640, 32),
    (3, 96, 97),
)
GROUPS = 32
torch._dynamo.config.recompile_limit = 64
torch._functorch.config.donated_buffer = False  # a backward that is timed runs many times on one graph
Form = Callable[..., Any]

FORMS: dict[str, tuple[str, Form, Form]] = {
    "rms_norm": ("xw", ops.norms.rms_norm, lambda x, w: F.rms_norm(x, w.shape, w, 1e-6)),
    "add_rms_norm": (
        "xrw",
        ops.norms.add_rms_norm,
        lambda x, r, w: (F.rms_norm(s := x + r, w.shape, w, 1e-6), s),
    ),
    "layer_norm": ("xwb", ops.norms.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b)),
    "group_norm_silu": (
        "xwb",
        partial(ops.norms.group_norm_silu, groups=GROUPS),
        lambda x, w, b: F.silu(F.group_norm(x, GROUPS, w, b)),
    ),
}
"""Arguments of an op, its form here, and torch's."""


def _right(own: Form, tensors: list[torch.Tensor]) -> object:
    """Return gradients of torch's form in float64, of the numbers that the others are given."""
    return backward(own, [t.double() for t in tensors], tensors[0].dtype)()


def cases(only: str) -> Iterator[Case]:
    """Make the cases of forward and backward, float32 and bfloat16."""
    for op, (takes, kernel, own) in FORMS.items():
        if only not in f"{op}_backward":
            continue
        for dtype in (torch.float32, torch.bfloat16):
            forms = {"kernel": kernel, "torch": own, "compile": compiled(own)}
            for size in IMAGES if op == "group_norm_silu" else SIZES:
                shape = (*size, size[-1]) if len(size) == 3 else size
                drawn = {name: torch.randn(shape if name in "xr" else shape[1:2]).to(dtype) for name in takes}
                tensors = list(drawn.values())
                tolerance = 1e-4 if dtype is torch.float32 else 3e-2
                words = "x".join(map(str, shape)), str(dtype).removeprefix("torch.")
                if only in op:
                    direct = {name: partial(form, *tensors) for name, form in forms.items()}
                    yield Case(op, *words, direct, tolerance)
                back = {name: backward(form, tensors) for name, form in forms.items()}
                # torch's column sums of bfloat16 rows are of bfloat16: a third of the largest off, of 32,768 rows.
                yield Case(f"{op}_backward", *words, back, tolerance, partial(_right, own, tensors))


if __name__ == "__main__":
    main(cases, "benchmarks.ops.norms")
