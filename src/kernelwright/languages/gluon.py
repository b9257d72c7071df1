"""Gluon, Triton's language of layouts and explicit shared memory; styles as for `triton`. Executed on a CPU.

A candidate is Python with `@gluon.jit` functions in it:

    # softmax.py, entry "softmax.py:run"
    import torch
    import triton
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    GLUON_EVIDENCE = [
        {"kernel": "softmax", "signature": {"x": "*fp32", "out": "*fp32", "n": "i32"},
         "constexprs": {"BLOCK": 1024}, "num_warps": 4},
    ]

    @gluon.jit
    def softmax(x, out, n, BLOCK: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        row = gl.program_id(0).to(gl.int64)
        columns = gl.arange(0, BLOCK, layout=layout)
        value = gl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))
        value = gl.exp(value - gl.max(value, 0))
        gl.store(out + row * n + columns, value / gl.sum(value, 0), mask=columns < n)

    def run(x):
        if x.dim() != 2 or not x.is_contiguous():
            raise NotImplementedError("Unsupported: x must be a contiguous matrix")
        out = torch.empty_like(x)
        rows, n = x.shape
        softmax[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n), num_warps=4)
        return out

`GLUON_EVIDENCE` is what `TRITON_EVIDENCE` is for `triton`, compiled for NVIDIA's targets alone, since layouts are made
for one kind of GPU; a kernel for one target only says `"targets": ["sm_90"]`. Gluon has no interpreter: without a GPU
every call is executed from its PTX for sm_90 (docs/executor.md), under the sanitiser, which finds copies that nobody
waited for and barriers that nobody completes: Triton's compiler writes neither for Gluon.
"""

from pathlib import Path

import torch

from ..errors import MissingToolError
from ..records import Candidate, TensorSpec
from ._protocol import Kernel
from .torch import load_symbol, returning
from .triton import TARGETS, Triton


class Gluon(Triton):
    """Gluon candidates."""

    name = "gluon"
    interprets = False
    gpus = tuple(target for target in TARGETS if target["backend"] == "cuda")
    more = ()
    evidence = "GLUON_EVIDENCE"

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Return the entry, on a GPU."""
        if not torch.cuda.is_available():
            raise MissingToolError("a Gluon kernel needs an NVIDIA GPU, or a C++ compiler to be executed by")
        return returning(load_symbol(candidate, artefact), candidate, outputs)
