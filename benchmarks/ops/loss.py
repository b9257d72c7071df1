"""Linear cross-entropy, forward and backward, against torch.compile of F.linear and F.cross_entropy, and chunked torch.

    python -m benchmarks.ops.loss [--threads 1] [--rounds 5] [--only bfloat16] [--out rows.jsonl] [--memory]

With one thread the figures are ratios of processor seconds, else of wall seconds: medians over rounds, in each of which
every form runs once in one process. Gradients of all forms are compared. `--memory`: the peak of a step above inputs
and gradients instead, in a fresh process for each form (Linux).
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy, linear

from kernelwright import ops

SIZES = (
    (2048, 8192, 32, "float32"), (2048, 8192, 64, "float32"), (1024, 32000, 64, "float32"),
    (1024, 32000, 128, "float32"), (512, 32000, 256, "float32"), (512, 32000, 512, "float32"),
    (512, 50257, 768, "float32"), (512, 32000, 128, "bfloat16"), (512, 32000, 512, "bfloat16"),
)  # fmt: skip
"""Rows, vocabulary, columns, dtype."""
MEMORY = ((2048, 32000, 64, "float32"), (4096, 32000, 64, "float32"))
ROWS = 256
Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def plain(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the loss as it is usually written."""
    return cross_entropy(linear(x, weight).float(), target)


def chunked(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the loss by chunks of rows, each recomputed for its gradient."""
    total = x.new_zeros((), dtype=torch.float32)
    for i in range(0, len(x), ROWS):
        total = total + torch.utils.checkpoint.checkpoint(
            lambda a, b, c: cross_entropy(linear(a, b).float(), c, reduction="sum"),
            x[i : i + ROWS], weight, target[i : i + ROWS], use_reentrant=False,
        )  # fmt: skip
    return total / len(x)


FORMS: dict[str, Loss] = {
    "ours": ops.loss.linear_cross_entropy,
    "compile": torch.compile(plain),
    "chunked": chunked,
}


def inputs(rows: int, vocabulary: int, columns: int, dtype: str) -> tuple[torch.Tensor, ...]:
    """Return x, weight and target; logits are of the order of ten."""
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    x = torch.randn(rows, columns).to(kind).requires_grad_()
    weight = (torch.randn(vocabulary, columns) * 2 / columns**0.5).to(kind).requires_grad_()
    return x, weight, torch.randint(0, vocabulary, (rows,))


def step(form: str, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Return the gradients of one step."""
    x, weight, target = given
    return torch.autograd.grad(FORMS[form](x, weight, target), (x, weight))


def peak_bytes(form: str, *size: object) -> int:
    """Return the peak of a step above inputs and gradients."""
    given = inputs(*(int(s) for s in size[:3]), str(size[3]))  # type: ignore[call-overload]
    small = inputs(8, 64, int(str(size[2])), str(size[3]))
    step(form, small)  # loads the kernel
    if form == "compile":
        step(form, given)
    ctypes.CDLL(None).malloc_trim(0)  # what was freed would hide what is asked for next
    Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status")

    def kib(name: str) -> int:
        return int(status.read_text().split(f"{name}:")[1].split()[0])

    before = kib("VmRSS")
    found = step(form, given)
    return (kib("VmHWM") - before) * 1024 - sum(g.numel() * g.element_size() for g in found)


def memory_table(threads: int) -> int:
    """Print the peaks of some sizes, each in a process of its own."""
    print("rows", "vocabulary", "columns", "dtype", *(f"MiB {name}" for name in FORMS), sep="\t")
    for size in MEMORY:
        peaks = []
        for name in FORMS:
            words = ["--threads", str(threads), "--peak", name, *map(str, size)]
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.ops.loss", *words],
                capture_output=True,
                text=True,
                check=True,
            )
            peaks.append(int(done.stdout) / 2**20)
        print(*size, *(f"{p:.0f}" for p in peaks), sep="\t", flush=True)
    return 0


def times(given: tuple[torch.Tensor, ...], rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Return the seconds of each form by round, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in FORMS}
    for _ in range(rounds):
        for name, taken in seconds.items():
            begun = clock()
            step(name, given)
            taken.append(clock() - begun)
    return seconds


def time_table(threads: int, rounds: int, only: str = "", out: Path | None = None) -> int:
    """Print the ratios of every size, then the geometric means."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    peers = [name for name in FORMS if name != "ours"]
    print("rows", "vocabulary", "columns", "dtype", "ms", *peers, sep="\t")
    every: dict[str, list[float]] = {name: [] for name in peers}
    wrong = 0
    for size in SIZES:
        if only not in size[3]:
            continue
        given = inputs(*size)
        right = [g.double() for g in step("chunked", given)]
        allowed = 2e-2 if size[3] == "bfloat16" else 1e-4
        for name in FORMS:
            found = zip(step(name, given), right, strict=True)
            wrong += any(not float((got.double() - g).norm()) < allowed * float(g.norm()) for got, g in found)
        seconds = times(given, rounds, clock)
        ratios = [
            statistics.median(t / o for t, o in zip(seconds[n], seconds["ours"], strict=True)) for n in peers
        ]
        for name, ratio in zip(peers, ratios, strict=True):
            every[name].append(ratio)
        took = statistics.median(seconds["ours"]) * 1e3
        print(*size, f"{took:.0f}", *(f"{r:.2f}" for r in ratios), sep="\t", flush=True)
        if out:
            row = {
                "op": "linear_cross_entropy", "size": size[:3], "dtype": size[3], "threads": threads,
                "rounds": rounds, "load": round(os.getloadavg()[0], 1),
                "ms": {name: [round(t * 1e3, 2) for t in taken] for name, taken in seconds.items()},
                "ratio": dict(zip(peers, (round(r, 3) for r in ratios), strict=True)),
            }  # fmt: skip
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    for name, ratios in every.items():
        print(f"{name}: geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    if wrong:
        print(f"gradients of {wrong} forms differ", file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    """Print one row a size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a dtype")
    parser.add_argument("--out", type=Path, help="JSONL file to append rows to")
    parser.add_argument("--memory", action="store_true", help="peaks of memory instead of times")
    parser.add_argument("--peak", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    if options.peak:
        print(peak_bytes(*options.peak))
        return 0
    if options.memory:
        return memory_table(options.threads)
    return time_table(options.threads, options.rounds, options.only, options.out)


if __name__ == "__main__":
    sys.exit(main())
