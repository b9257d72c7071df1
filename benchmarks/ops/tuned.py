"""Numbers of the four templates, each timed by shape, and the table of this kind of processor that ships.

    python -m benchmarks.ops.tuned [--only lowbit] [--threads 1] [--rounds 9] --out rows.jsonl
    python -m benchmarks.ops.tuned --table rows.jsonl [more.jsonl]

A row is one op at one shape: the median of its time with the kernel's own number and with each that may be chosen, in
turn in one process, on the same inputs; `gain` is the median of the ratios of the own number's time to the best's in
the same round, with its quartiles. With one thread the clock is the CPU time of the thread, else the wall.

`--table` writes what rows say to `ops/_templates/tuned/KIND.json`: the best number where it is 3 % faster or more
by the lower quartile; else -1, the kernel's own, so that calls of that shape are not tried again.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from kernelwright import ops
from kernelwright.ops import kmeans, logits, loss, lowbit, moe, neighbours
from kernelwright.ops._core.tuning import GAIN, OWN, kind
from kernelwright.ops._templates import TABLES

LEAST_S = 0.004
"""Seconds that the calls of one turn take together at least."""
F32, BF16 = torch.float32, torch.bfloat16
POINTS = (
    (50000, 64, 32), (20000, 256, 64), (10000, 1024, 128), (5000, 100, 784), (4000, 1024, 512), (10000, 64, 1024),
)  # fmt: skip
"""Rows, clusters, columns."""
LAYERS = ((8, 2, 1024, 1792), (32, 4, 512, 352))
"""Experts, chosen, hidden, width."""

Given = tuple[str, Any, tuple[Any, ...]]


def of_points() -> Iterator[Given]:
    """Yield calls that look for near points."""
    for rows, clusters, columns in POINTS:
        x, c = torch.randn(rows, columns), torch.randn(clusters, columns)
        yield "kmeans_assign", kmeans, (x, c, None)
        yield "kmeans_step", kmeans, (x, c, None, None)
    for rows, points, columns in ((64, 20000, 128), (256, 20000, 128), (64, 10000, 768), (256, 5000, 1536)):
        yield (
            "neighbours_nearest",
            neighbours,
            (torch.randn(rows, columns), torch.randn(points, columns), 10, 0),
        )


def of_logits() -> Iterator[Given]:
    """Yield calls on logits that are never stored."""
    for rows, words, columns, dtype in (
        (16, 32000, 512, F32), (64, 32000, 512, F32), (256, 16000, 512, F32), (64, 16000, 2048, F32),
        (64, 16000, 2048, BF16), (256, 8000, 4096, BF16),
    ):  # fmt: skip
        x, weight = torch.randn(rows, columns, dtype=dtype), torch.randn(words, columns, dtype=dtype)
        yield "logits_top", logits, (x, weight, None, 1, 0.0, True)
        target = torch.randint(words, (rows,))
        yield "linear_cross_entropy", loss, (x, weight, target, None, -100, 0.0, 0.0, 0.0)


def of_experts() -> Iterator[Given]:
    """Yield layers of experts."""
    for experts, chosen, hidden, width in LAYERS:
        for dtype in (F32, BF16):
            both = torch.randn(experts, 2 * width, hidden, dtype=dtype)
            packed = moe.pack(both, torch.randn(experts, hidden, width, dtype=dtype))
            for tokens in (16, 128, 512):
                ids = torch.rand(tokens, experts).topk(chosen, 1).indices
                weights = torch.rand(tokens, chosen)
                yield (
                    "moe_experts",
                    moe,
                    (torch.randn(tokens, hidden, dtype=dtype), packed.ups, packed.downs, weights, ids),
                )


def of_plans() -> Iterator[Given]:
    """Yield keys to sort."""
    for keys, groups in ((100_000, 64), (400_000, 64), (400_000, 4096), (2_000_000, 64), (2_000_000, 4096)):
        yield "moe_plan", moe, (torch.randint(groups, (keys,)), groups)


def of_lowbit() -> Iterator[Given]:
    """Yield layers of few bits."""
    for bits in (4, 8, 2, 3):
        p = lowbit.pack(torch.randn(2048, 4096), bits, 128)
        for rows in (1, 2, 4, 8, 32):
            for dtype, int8 in ((F32, False), (BF16, False), (F32, True)):
                x = torch.randn(rows, 4096, dtype=dtype)
                yield "lowbit_linear", lowbit, (
                    x, p.codes, p.scales, p.zeros, p.minima, None, p.exponent, p.group, p.zero, int8, p.outputs,
                )  # fmt: skip


GROUPS: dict[str, Callable[[], Iterator[Given]]] = {
    "points": of_points, "logits": of_logits, "experts": of_experts, "plans": of_plans, "lowbit": of_lowbit,
}  # fmt: skip


def row(name: str, family: Any, arguments: tuple[Any, ...], rounds: int, threads: int) -> dict[str, object]:
    """Time a call with every number in turn."""
    (op,) = (one for one in ops.ops_of(family) if one.name == name)
    op.check(*arguments)
    assert op.serves(*arguments) is None
    entry, made = op._load(op._part(arguments)), op.outputs(*arguments)
    outputs = made if isinstance(made, tuple) else (made,)
    clock = time.thread_time if threads == 1 else time.perf_counter
    times: dict[int, list[float]] = {number: [] for number in (OWN, *op.tuning.of.values)}

    def timed(number: int, calls: int) -> float:
        last = () if number == OWN else (number,)
        begun = clock()
        for _ in range(calls):
            entry(*arguments, *outputs, *last)
        return (clock() - begun) / calls

    calls = max(1, round(LEAST_S / max(timed(OWN, 1), 1e-6)))
    for turn in range(rounds):
        numbers = list(times)
        for number in numbers[turn % len(numbers) :] + numbers[: turn % len(numbers)]:
            times[number].append(timed(number, calls))
    medians = {number: statistics.median(taken) for number, taken in times.items()}
    best = min(medians, key=medians.__getitem__)
    ratios = sorted(own / mine for own, mine in zip(times[OWN], times[best], strict=True))
    return {
        "op": name, "shape": op.tuning.shape(arguments), "processor": kind(), "threads": threads, "rounds": rounds,
        "sizes": [list(a.shape) if isinstance(a, torch.Tensor) else a for a in arguments],
        "times_us": {str(number): round(taken * 1e6, 1) for number, taken in medians.items()}, "best": best,
        "gain": round(statistics.median(ratios), 3),
        "gain_quartiles": [round(ratios[len(ratios) // 4], 3), round(ratios[len(ratios) * 3 // 4], 3)],
    }  # fmt: skip


def write_table(files: list[Path]) -> None:
    """Write the table of this kind of processor from rows."""
    table: dict[str, dict[str, int]] = {}
    every = (op for name in ops.families() for op in ops.ops_of(ops.family(name)) if op.tuning)
    known = {op.name: op.tuning.of.values for op in every}
    for file in files:
        for line in file.read_text().splitlines():
            found = json.loads(line)
            if found["processor"] == kind():
                best = found["best"]
                sure = best in known[found["op"]] and found["gain_quartiles"][0] * GAIN >= 1
                table.setdefault(found["op"], {})[found["shape"]] = best if sure else OWN
    TABLES.joinpath(f"{kind()}.json").write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Print a row for each op and shape, or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, nargs="+")
    given = parser.parse_args()
    if given.table:
        return write_table(given.table)
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    for group in given.only:
        for one in GROUPS[group]():
            text = json.dumps(row(*one, given.rounds, given.threads))
            print(text, flush=True)
            if given.out:
                with given.out.open("a") as to:
                    to.write(text + "\n")
    return None


if __name__ == "__main__":
    main()
