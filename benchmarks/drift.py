"""Planted drifts and honest rewritings of a small transformer: how many are found, how many raise a false alarm.

    python -m benchmarks.drift                           both dtypes, one seed
    python -m benchmarks.drift --seed 12 --honest 100    other weights, requests and mixtures
    python -m benchmarks.drift --compile                 with what torch.compile makes of parts of it
    python -m benchmarks.drift --far 512                 only what begins late, there, with a request that long

Limits were looked at on seed 0 alone; figures are of other seeds.
"""

import argparse
import copy
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tests.models.drift.changes import HONEST, PLANTED, SAMPLERS, SHARE, TEMPERATURE, changed, mixture
from tests.models.drift.tiny import Gelu, Norm, Sizes, Tiny
from torch import nn

from kernelwright.models.drift import (
    Noise,
    Requests,
    compare,
    compare_samplers,
    noise_of,
    own_text,
    serve,
    top_p,
)
from kernelwright.models.drift._sampler import contexts_of
from kernelwright.models.drift._serve import DEPLOYED, Scene

SIZES = Sizes(vocab=48, width=32, heads=4, groups=2, layers=3, hidden=48)
LENGTHS, STEPS, LATE = (4, 9, 16), 4, 12
LATE_ONES = ("cache_off_by_one_later", "positions_off_by_one_later")
ROUNDING = ("softmax_in_bfloat16", "sum_in_half_if_batched")
"""What rounds to bfloat16, which is what a bfloat16 model does natively: planted in float32 alone."""


def measure(dtype: torch.dtype, seed: int, requests: Requests | None = None) -> Noise:
    """Make a native model and measure its noise."""
    model = Tiny(SIZES, seed=seed).to(dtype)
    requests = requests or own_text(model, LENGTHS, STEPS, seed)
    served = requests
    return noise_of(model, lambda model, scene: serve(model, served, scene), DEPLOYED, draws=12, seed=seed)


def rewritings(
    seed: int, count: int, compiled: bool
) -> Iterator[tuple[str, Callable[[nn.Module], object], int]]:
    """Yield honest changes: each form alone, other numbers of threads, and mixtures; name, change and threads."""
    for name, change in HONEST.items():
        yield name, change, 1
    yield "two threads", lambda _: None, 2
    if compiled:
        yield "compiled norms", lambda m: compile_each(m, Norm), 1
        yield "compiled activations", lambda m: compile_each(m, Gelu), 1
        yield "compiled layers", lambda m: compile_each(m, type(m.layers[0].mlp)), 1
    for number in range(max(count - len(HONEST) - 1, 0)):
        yield f"mixture {number}", mixture(seed * 1_000 + number), 1


def compile_each(model: nn.Module, kind: type) -> None:
    """Compile every submodule of a class."""
    for module in model.modules():
        if isinstance(module, kind):
            module.forward = torch.compile(module.forward, dynamic=True)


def rows_of(dtype: torch.dtype, seed: int, count: int, compiled: bool, far: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each change: what it is, what was concluded, and why."""
    requests = None
    if far:
        random = torch.Generator().manual_seed(seed)
        requests = Requests((torch.randint(SIZES.vocab, (far + 8,), generator=random),), 8)
    noise = measure(dtype, seed, requests)
    names = LATE_ONES if far else [n for n in PLANTED if dtype is torch.float32 or n not in ROUNDING]
    for name in names:
        change, cause = PLANTED[name]
        found = compare(noise, changed(noise.native, change, far or LATE))
        named = found.cause.path if found.cause else None
        yield row("planted", name, dtype, seed, found, named=named == cause)
    if far:
        return
    for name, change, threads in rewritings(seed, count, compiled):
        torch.set_num_threads(threads)
        other = copy.deepcopy(noise.native)
        change(other)
        yield row("honest", name, dtype, seed, compare(noise, other))
        torch.set_num_threads(1)
    if dtype is torch.float32:
        logits = contexts_of(noise.served[Scene.ALONE], 8)
        for name, (sampler, drifts) in SAMPLERS.items():
            drawn = compare_samplers(top_p(SHARE, TEMPERATURE), sampler, logits, seed=seed)
            outcome = "drifted" if drawn.p_value < 0.001 else "same"
            yield {
                "kind": "planted" if drifts else "honest", "name": f"sampler {name}", "dtype": "float32", "seed": seed,
                "outcome": outcome, "excess": drawn.p_value, "scene": "sampler", "named": True,
            }  # fmt: skip


def row(
    kind: str, name: str, dtype: torch.dtype, seed: int, found: Any, *, named: bool = True
) -> dict[str, Any]:
    """Return what is kept of a comparison."""
    worst = max(found.scenes, key=lambda s: s.excess)
    return {
        "kind": kind, "name": name, "dtype": str(dtype).removeprefix("torch."), "seed": seed,
        "outcome": found.outcome.value, "excess": worst.excess, "scene": worst.scene, "named": named,
    }  # fmt: skip


def main() -> None:
    """Print the table; rows go to a file too, if one is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=11, help="seed of weights, requests, draws and mixtures")
    parser.add_argument("--honest", type=int, default=100, help="honest changes for each dtype")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="one dtype instead of both")
    parser.add_argument("--compile", action="store_true", help="also what torch.compile makes of parts")
    parser.add_argument("--far", type=int, default=0, help="only drifts that begin at this position")
    parser.add_argument("--out", type=Path, help="append each row to this file as JSON")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    begun, counts = time.monotonic(), Counter[tuple[str, str, str]]()
    unnamed = 0
    for dtype in [asked.dtype] if asked.dtype else ["float32", "bfloat16"]:
        for one in rows_of(getattr(torch, dtype), asked.seed, asked.honest, asked.compile, asked.far):
            counts[one["dtype"], one["kind"], one["outcome"]] += 1
            unnamed += one["kind"] == "planted" and one["outcome"] == "drifted" and not one["named"]
            layer = "" if one["named"] else "  (another layer named)"
            print(
                f"{one['dtype']:9}{one['kind']:8}{one['name']:44}{one['outcome']:13}{one['excess']:10.3g} "
                f"{one['scene']}{layer}",
                flush=True,
            )
            if asked.out:
                with asked.out.open("a") as file:
                    file.write(json.dumps(one) + "\n")
    for (dtype, kind, outcome), count in sorted(counts.items()):
        print(f"{dtype} {kind}: {count} {outcome}")
    print(f"drifts with another layer named: {unnamed}; {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
