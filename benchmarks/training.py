"""Training steps: judged, then timed as their owner runs them, and 200 steps compared with the native ones.

    python -m benchmarks.training [--only gpt,mlp] [--minutes 3] [--steps [--patched-optimizer]] [--out rows.jsonl]

Each model is optimised in training, unless the store has it. With `--steps` the accepted program then trains the model:
forward, backward and a fused AdamW step, in turns with eager and `torch.compile` of the model, on the same batches; and
over five seeds its losses after 200 steps are held against the spread of the native ones. With `--patched-optimizer`
`OptimizerPatch` makes that AdamW's steps.
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

from benchmarks.causal_lm import causal_lm, small_causal_lm, small_token_batch, token_batch
from benchmarks.training_models import MODELS, MORE, Batch
from kernelwright.flow import optimize
from kernelwright.models import ModelResult, OptimizerPatch, model_result, optimize_training, patch
from kernelwright.models._training import PROPOSERS
from kernelwright.records import Budget, Task

STEPS, SEEDS, ROUNDS = 200, 5, 60
Row = dict[str, Any]
ALL = (
    MODELS
    | MORE
    | {"causal_lm": (causal_lm, token_batch), "small_causal_lm": (small_causal_lm, small_token_batch)}
)


def main(argv: Sequence[str] | None = None) -> int:
    """Optimise and time the models that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", default=",".join(MODELS), help="models, by comma")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--search-minutes", type=float, help="when to stop trying and accept what was found")
    parser.add_argument(
        "--steps", action="store_true", help="train with what the store has; nothing is searched"
    )
    parser.add_argument("--patched-optimizer", action="store_true", help="with --steps: by `OptimizerPatch`")
    parser.add_argument("--proposers", default=",".join(PROPOSERS), help="who proposes programs, by comma")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    for name in asked.only.split(","):
        if asked.steps:
            row = trained(name, asked.store, patched=asked.patched_optimizer)
        else:
            budget = Budget(minutes=asked.minutes, search_minutes=asked.search_minutes)
            row = judged(name, budget, asked.proposers.split(","), asked.store)
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


def judged(name: str, budget: Budget, proposers: Sequence[str], store: Path | None) -> Row:
    """Return the judge's verdict on forward and backward as one program, and the memory of what was timed."""
    build, _ = ALL[name]

    def search(task: Task, **options: Any) -> Any:
        return optimize(task, **{**options, "budget": budget})

    result = optimize_training(build, proposers=proposers, device="cpu", store=store, search=search)
    speedup = result.speedup.model_dump() if result.speedup else None
    return {
        "kind": "judged", "decision": str(result.decision), "speedup": speedup, "baseline": result.baseline,
        "over_eager": result.eager_speedup, "run": result.run, "reason": result.reason, "seconds": result.seconds,
        "programs": [one.model_dump() for one in result.programs],
    }  # fmt: skip


def trained(name: str, store: Path | None, *, patched: bool = False) -> Row:
    """Return times of whole steps in turns, and the losses of 200 steps over five seeds."""
    build, batch = ALL[name]
    result = _of(name, store)
    model, _ = build()
    ways = {
        "eager": _way(model),
        "compile": _way(model, compiled=True),
        "kernelwright": _way(model, result, store, patched=patched),
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
              "kernelwright": [
        _losses(_fresh(build, s), batch, s, result, store, patched=patched) for s in range(SEEDS)
    ]}  # fmt: skip
    ours = times["kernelwright"]
    over = {w: median(n / k for n, k in zip(times[w], ours, strict=True)) for w in ("eager", "compile")}
    return {
        "kind": "steps", "patched_optimizer": patched,
        "threads": torch.get_num_threads(), "step_us": {w: median(t) for w, t in times.items()},
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
    model: nn.Module, result: ModelResult | None = None, store: Path | None = None, *, compiled: bool = False,
    patched: bool = False,
) -> Callable[[Batch], float]:  # fmt: skip
    """Return one way to make a step, on a model of its own; it returns the loss."""
    own = copy.deepcopy(model).train()
    optimizer = torch.optim.AdamW(own.parameters(), lr=1e-3, fused=True)
    if patched:
        OptimizerPatch(optimizer)
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
        if callable(reset := getattr(part, "reset_parameters", None)):
            reset()
    return model


def _losses(
    model: nn.Module, batch: Callable[[int], Batch], seed: int, result: ModelResult | None = None,
    store: Path | None = None, *, patched: bool = False,
) -> list[float]:  # fmt: skip
    step = _way(model, result, store, patched=patched)
    return [step(batch(1000 * seed + number)) for number in range(STEPS)]


def _within(losses: dict[str, list[list[float]]]) -> bool:
    """Tell whether each seed's last losses are as near the native one's as the native seeds are to each other."""
    ends = {way: [median(one[-20:]) for one in found] for way, found in losses.items()}
    spread = max(ends["native"]) - min(ends["native"])
    return all(abs(a - b) <= spread for a, b in zip(ends["native"], ends["kernelwright"], strict=True))


if __name__ == "__main__":
    raise SystemExit(main())
