"""Layers of experts against the eager loop, torch.compile of it, and torch's grouped product, in one process.

    python -m benchmarks.ops.moe [--only mixtral] [--threads 1] [--rounds 7] [--out rows.jsonl]

A row is one layer and number of tokens in one dtype: the least time of each variant, and the median of the ratios of
each peer's time to ours in the same round. Variants take turns within a round. With one thread the clock is the
process's CPU seconds, else the wall. Every variant has the weights ready in the layout that it reads; `loop` and
`compile` gather the tokens of each expert, `grouped` sorts them once and calls `torch._grouped_mm`,
which takes bfloat16.
"""

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from kernelwright.ops import moe

Call = Callable[[], torch.Tensor]
LAYERS = {"mixtral": (8, 2, 1024, 3584), "fine": (64, 6, 512, 352), "many": (32, 4, 768, 1024)}
"""Experts, chosen, hidden, width: shares of the sizes of Mixtral, DeepSeek-V2-Lite and Qwen-MoE that fit here."""
TOKENS = (1, 4, 16, 64, 256, 1024)


def loop(
    x: torch.Tensor, one: torch.Tensor, two: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """Each expert's tokens in turn, as Hugging Face's eager layers do."""
    out = torch.zeros_like(x)
    for expert in ids.unique().tolist():
        token, which = torch.where(ids == expert)
        gate, up = F.linear(x[token], one[expert]).chunk(2, 1)
        product = F.linear(F.silu(gate) * up, two[expert]) * weights[token, which, None].to(x.dtype)
        out.index_add_(0, token, product)
    return out


def grouped(
    x: torch.Tensor, one: torch.Tensor, two: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """Tokens sorted by expert, and torch's grouped product."""
    order = ids.reshape(-1).argsort(stable=True)
    ends = torch.bincount(ids.reshape(-1), minlength=len(one)).cumsum(0).to(torch.int32)
    gate, up = torch._grouped_mm(x[order // ids.shape[1]], one.transpose(1, 2), offs=ends).chunk(2, 1)
    product = torch._grouped_mm(F.silu(gate) * up, two.transpose(1, 2), offs=ends)
    product = product * weights.reshape(-1)[order, None].to(x.dtype)
    return torch.zeros_like(x).index_add_(0, order // ids.shape[1], product)


def variants(layer: str, tokens: int, dtype: torch.dtype) -> dict[str, Call]:
    """Build what computes a layer, ours first."""
    count, chosen, hidden, width = LAYERS[layer]
    x = torch.randn(tokens, hidden).to(dtype)
    one = (torch.randn(count, 2 * width, hidden) * hidden**-0.5).to(dtype)
    two = (torch.randn(count, hidden, width) * width**-0.5).to(dtype)
    weights, ids = moe.gate(torch.randn(tokens, count), chosen)
    packed = moe.pack(one, two)
    compiled = torch.compile(loop, dynamic=True)
    found: dict[str, Call] = {
        "own": lambda: moe.experts(x, packed, weights, ids),
        "loop": lambda: loop(x, one, two, weights, ids),
        "compile": lambda: compiled(x, one, two, weights, ids),
    }
    if dtype is torch.bfloat16:
        found["grouped"] = lambda: grouped(x, one, two, weights, ids)
    return found


def measured(layer: str, tokens: int, dtype: torch.dtype, threads: int, rounds: int) -> dict[str, Any]:
    """Time the variants of one layer in turn."""
    calls = variants(layer, tokens, dtype)
    expected, errors = calls["loop"]().double(), {}
    for name in list(calls):
        try:
            out = calls[name]()
            errors[name] = float((out.double() - expected).abs().max() / expected.abs().mean())
        except RuntimeError as error:
            print(f"{name} does not run here: {str(error).splitlines()[0]}")
            del calls[name]
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name in random.sample(list(calls), len(calls)):
            calls[name]()
            repeats = 3 if tokens < 64 else 1
            begun = clock()
            for _ in range(repeats):
                calls[name]()
            times[name].append((clock() - begun) / repeats * 1e6)
    _, chosen, hidden, width = LAYERS[layer]
    gflop = 6e-9 * tokens * chosen * hidden * width
    return {
        "gflop": round(gflop, 3),
        "gflop_per_s": {name: round(gflop / min(each) * 1e6, 1) for name, each in times.items()},
        "layer": layer, "sizes": LAYERS[layer], "tokens": tokens, "dtype": str(dtype).removeprefix("torch."),
        "threads": threads, "load": round(os.getloadavg()[0], 1),
        "us": {name: round(min(each), 1) for name, each in times.items()},
        "median_us": {name: round(statistics.median(each), 1) for name, each in times.items()},
        "ratio": {
            name: round(statistics.median(a / b for a, b in zip(each, times["own"], strict=True)), 2)
            for name, each in times.items() if name != "own"
        },
        "difference_to_loop": errors,
    }  # fmt: skip


def main() -> None:
    """Print a line for each layer, number of tokens and dtype, and keep the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="layers, tokens or dtypes that contain this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        for layer in LAYERS:
            for tokens in TOKENS:
                name = f"{layer} {tokens} tokens {dtype}"
                if given.only not in name:
                    continue
                row = measured(layer, tokens, dtype, given.threads, given.rounds)
                print(f"{name}: {row['us']} us, peers {row['ratio']}", flush=True)
                if given.out:
                    with given.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
