"""Monarch and BLAST layers against the formula in torch, torch.compile of it, and a dense linear layer.

    python -m benchmarks.ops.blr [--only blast] [--rounds 7] [--out FILE]

The formula is the authors': batched products with permutations between. Weights of ours are packed ahead of the calls,
as a layer packs them. In brackets: multiplications of a dense layer over those of this one.
"""

from collections.abc import Iterator

import torch
from torch.nn import functional as F

from benchmarks.ops._turns import Case, compiled, main
from kernelwright.ops import blr
from kernelwright.ops.blr import reference

SIZES = {
    "monarch": ((1024, 1024, 4, 64), (768, 3072, 4, 48), (1024, 1024, 16, 4)),
    "blast": ((1024, 1024, 4, 128), (768, 3072, 4, 128), (1024, 1024, 16, 128)),
}
"""Inputs, outputs, blocks and groups, rank."""
ROWS = (1, 16, 256, 1024)


def dense_share(op: str, inputs: int, outputs: int, blocks: int, rank: int) -> float:
    """Multiplications of a dense layer over those of this one."""
    if op == "monarch":
        return outputs * inputs / (blocks * rank * (inputs + outputs))
    return outputs * inputs / (rank * (inputs + outputs + blocks * blocks))


def cases(only: str) -> Iterator[Case]:
    """All of them whose name contains a word, made one by one."""
    forms = {
        "monarch": (blr.MonarchLinear, reference.monarch_of),
        "blast": (blr.BlastLinear, reference.blast_of),
    }
    for op, (kind, formula) in forms.items():
        if only not in op:
            continue
        made = compiled(formula)
        for inputs, outputs, blocks, rank in SIZES[op]:
            torch.manual_seed(0)
            layer = kind(inputs, outputs, rank, blocks=blocks, bias=False).requires_grad_(False)
            factors, dense = list(layer.parameters()), torch.randn(outputs, inputs)
            for rows in ROWS:
                x = torch.randn(rows, inputs)
                few = dense_share(op, inputs, outputs, blocks, rank)
                yield Case(
                    op, f"{rows}x{inputs}x{outputs} {blocks} blocks rank {rank} ({few:.2f})", "float32", {
                        "kernel": lambda x=x, layer=layer: layer(x),
                        "eager": lambda x=x, factors=factors, formula=formula: formula(x, *factors),
                        "compile": lambda x=x, factors=factors, made=made: made(x, *factors),
                    },
                )  # fmt: skip
                yield Case(
                    f"{op}_dense", f"{rows}x{inputs}x{outputs} {blocks} blocks rank {rank} ({few:.2f})", "float32", {
                        "kernel": lambda x=x, layer=layer: layer(x),
                        "linear": lambda x=x, dense=dense: F.linear(x, dense),
                    }, float("inf"),
                )  # fmt: skip


if __name__ == "__main__":
    main(cases, "benchmarks.ops.blr")
