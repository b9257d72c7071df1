"""Training steps: judged, then timed as their owner runs them, and 200 steps compared with the native ones.

    python -m benchmarks.training [--only gpt,mlp] [--minutes 3] [--steps] [--out rows.jsonl]

Each model is optimised in training, unless the store has it. With `--steps` the accepted program then trains the model:
forward, backward and a fused AdamW step, in turns with eager and `torch.compile` of the model, on the same batches; and
over five seeds its losses after 200 steps are held against the spread of the native ones.
"""

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from kernelwright.models import ModelResult, model_result, optimize_training, patch

STEPS, SEEDS, ROUNDS = 200, 5, 60
Row = dict[str, Any]
Batch = tuple[torch.Tensor, ...]


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add attention and two products."""
        batch, tokens, width = x.shape
        q, k, v = (
            self.mixed(self.first(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        found: torch.Tensor = x + self.down(functional.gelu(self.up(self.second(x))))
        return found


class Gpt(nn.Module):
    """A causal language model with its loss."""

    def __init__(self, vocabulary: int = 256, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the loss of the next tokens."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), wanted.flatten())


class Mlp(nn.Module):
    """A residual classifier of vectors with its loss."""

    def __init__(self, width: int = 128, layers: int = 3, classes: int = 10) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the loss of the classes."""
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + functional.silu(layer(norm(x)))
        return functional.cross_entropy(self.head(x), wanted)


def gpt() -> tuple[nn.Module, Batch]:
    """Return the language model and a batch of text whose next token follows from the last."""
    torch.manual_seed(0)
    return Gpt(), gpt_batch(0)


def mlp() -> tuple[nn.Module, Batch]:
    """Return the classifier and a batch."""
    torch.manual_seed(0)
    return Mlp(), mlp_batch(0)


def gpt_batch(seed: int) -> Batch:
    """Return tokens and the tokens after them: twice the last, plus one."""
    generator = torch.Generator().manual_seed(seed)
    tokens = [torch.randint(0, 256, (4, 1), generator=generator)]
    for _ in range(32):
        tokens.append((2 * tokens[-1] + 1) % 251)
    text = torch.cat(tokens, 1)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def mlp_batch(seed: int) -> Batch:
    """Return vectors and which of their first ten elements is the largest."""
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :10].argmax(1)


MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, Batch]], Callable[[int], Batch]]] = {
    "gpt": (gpt, gpt_batch), "mlp": (mlp, mlp_batch),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Optimise and time the models that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", default=",".join(MODELS), help="models, by comma")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument(
        "--steps", action="store_true", help="train with what the store has; nothing is searched"
    )
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    for name in asked.only.split(","):
        row = trained(name, asked.store) if asked.steps else judged(name, asked.minutes, asked.store)
        row = {
            "model": name,
            "load": os.getloadavg()[0],
            "command": " ".join(["benchmarks.training", *sys.argv[1:]]),
            **row,
        }
        print(json.dumps(row), flush=True)
        if asked.out is not None:
            with asked.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return 0


def judged(name: str, minutes: float, store: Path | None) -> Row:
    """Return the judge's verdict on forward and backward as one program."""
    result = optimize_training(MODELS[name][0], minutes=minutes, device="cpu", store=store)
    speedup = result.speedup.model_dump() if result.speedup else None
    return {
        "kind": "judged", "decision": str(result.decision), "speedup": speedup, "baseline": result.baseline,
        "over_eager": result.eager_speedup, "run": result.run, "reason": result.reason, "seconds": result.seconds,
    }  # fmt: skip


def trained(name: str, store: Path | None) -> Row:
    """Return times of whole steps in turns, and the losses of 200 steps over five seeds."""
    build, batch = MODELS[name]
    result = _of(name, store)
    model, _ = build()
    ways = {
        "eager": _way(model),
        "compile": _way(model, compiled=True),
        "kernelwright": _way(model, result, store),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(ROUNDS + 5):
        for way, step in ways.items():
            given = batch(number)
            begun = time.perf_counter()
            step(given)
            if number >= 5:
                times[way].append((time.perf_counter() - begun) * 1e6)
    losses = {"native": [_losses(_fresh(build, s), batch, s) for s in range(SEEDS)],
              "kernelwright": [_losses(_fresh(build, s), batch, s, result, store) for s in range(SEEDS)]}  # fmt: skip
    ours = times["kernelwright"]
    over = {w: median(n / k for n, k in zip(times[w], ours, strict=True)) for w in ("eager", "compile")}
    return {
        "kind": "steps", "threads": torch.get_num_threads(), "step_us": {w: median(t) for w, t in times.items()},
        "over": over,
        "losses": losses, "within_spread": _within(losses),
    }  # fmt: skip


def _of(name: str, store: Path | None) -> ModelResult:
    found = model_result("last", store)
    if found.model != name:
        raise SystemExit(
            f"the newest result in the store is of {found.model}; run without --steps for {name} first"
        )
    return found


def _way(
    model: nn.Module, result: ModelResult | None = None, store: Path | None = None, *, compiled: bool = False
) -> Callable[[Batch], float]:
    """Return one way to make a step, on a model of its own; it returns the loss."""
    own = copy.deepcopy(model).train()
    optimizer = torch.optim.AdamW(own.parameters(), lr=1e-3, fused=True)
    if result is not None:
        patch(own, result, store=store)
    call = torch.compile(own) if compiled else own

    def step(batch: Batch) -> float:
        optimizer.zero_grad()
        loss = call(*batch)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _fresh(build: Callable[[], tuple[nn.Module, Batch]], seed: int) -> nn.Module:
    model, _ = build()
    torch.manual_seed(seed)
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Embedding | nn.LayerNorm):
            part.reset_parameters()
    return model


def _losses(
    model: nn.Module, batch: Callable[[int], Batch], seed: int, result: ModelResult | None = None,
    store: Path | None = None,
) -> list[float]:  # fmt: skip
    step = _way(model, result, store)
    return [step(batch(1000 * seed + number)) for number in range(STEPS)]


def _within(losses: dict[str, list[list[float]]]) -> bool:
    """Tell whether each seed's last losses are as near the native one's as the native seeds are to each other."""
    ends = {way: [median(one[-20:]) for one in found] for way, found in losses.items()}
    spread = max(ends["native"]) - min(ends["native"])
    return all(abs(a - b) <= spread for a, b in zip(ends["native"], ends["kernelwright"], strict=True))


if __name__ == "__main__":
    raise SystemExit(main())
