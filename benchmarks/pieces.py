"""A model whose graph breaks, optimised in its pieces: faster end to end, and right in every branch.

    python -m benchmarks.pieces [--minutes 5] [--store DIR] [--out rows.jsonl]

Two blocks, a branch on a value, two blocks. `optimize` searches what the pieces share, and judges the model as a whole.
Then the model is patched and called on inputs that take the usual branch and on some that take the rare one; an answer
may be off from float64 by twice as much as the native model's. A row tells the verdict, what became of each region, and
how far both are off, in shares of the largest value.
"""

import argparse
import copy
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelwright.models import load_model, optimize_model, patch

_ROWS, _WIDTH, _LARGE = 64, 192, 1000.0
_MOST_TIMES = 2.0
"""How many times as far off as the native model an answer may be."""


class Block(nn.Module):
    """Normalise, widen, activate, narrow, add.

    Example:
        >>> Block()(torch.ones(2, 192)).shape
        torch.Size([2, 192])
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(_WIDTH)
        self.up, self.down = nn.Linear(_WIDTH, 4 * _WIDTH), nn.Linear(4 * _WIDTH, _WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x: (rows, 192) float32 and what its features make of it."""
        out: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return out


class Branching(nn.Module):
    """Four blocks with a branch on a value in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x: (rows, 192) float32 after all blocks; large values are scaled down in the middle."""
        x = self.first(x)
        if x.abs().max() > 50.0:
            x = x / x.abs().max()
        out: torch.Tensor = self.second(x)
        return out


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return the model and the inputs of one call."""
    torch.manual_seed(0)
    return Branching().eval(), (torch.randn(_ROWS, _WIDTH),)


def main(argv: Sequence[str] | None = None) -> int:
    """Optimise the model, check both branches, and print a row; the exit code is 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    load = os.getloadavg()[0]
    result = optimize_model(f"{Path(__file__)}:build", minutes=asked.minutes, store=asked.store, device="cpu")
    row: dict[str, Any] = {
        "model": "two blocks, a branch on a value, two blocks", "load": load,
        "command": " ".join(["benchmarks.pieces", *sys.argv[1:]]), "decision": str(result.decision),
        "speedup": result.speedup.model_dump() if result.speedup else None, "baseline": result.baseline,
        "eager_speedup": result.eager_speedup, "forecast": result.expected[1], "pieces": result.pieces,
        "reason": result.reason, "seconds": result.seconds,
        "regions": {r.label: {"uses": r.uses, "speedup": r.speedup, "kept": r.kept} for r in result.regions},
    }  # fmt: skip
    right = True
    if result.improved:
        model = load_model(f"{Path(__file__)}:build").module
        with patch(copy.deepcopy(model), result, store=asked.store) as patched:
            row["branches"] = errors(model, patched.model)
            row["served"] = patched.calls
        right = all(one["patched"] <= _MOST_TIMES * one["native"] for one in row["branches"].values())
    print(json.dumps(row), flush=True)
    if asked.out is not None:
        with asked.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return int(not right)


def errors(native: nn.Module, patched: nn.Module) -> dict[str, dict[str, float]]:
    """Return how far both models are off from float64 in each branch, in shares of the largest value."""
    found = {}
    wide = copy.deepcopy(native).double()
    for name, scale in (("usual", 1.0), ("rare", _LARGE)):
        x = scale * torch.randn(_ROWS, _WIDTH, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            wanted = wide(x.double())
            found[name] = {
                side: float((model(x) - wanted).abs().max() / wanted.abs().max())
                for side, model in (("native", native), ("patched", patched))
            }
    return found


if __name__ == "__main__":
    raise SystemExit(main())
