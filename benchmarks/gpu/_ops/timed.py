"""Time ops on the GPU, all contestants in turn in one process, by replays of graphs over inputs larger than its L2.

    python -m benchmarks.gpu._ops.timed --groups norms loss --seconds 40 --out FILE

Several processes may run: one has the GPU while it times, the others draw inputs and compile.
"""

import argparse
import json
import math
import statistics
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from .._schedule_time import gpu
from .right import flat
from .sizes import GROUPS, Call, Timed

APART = 200e6
"""Bytes of inputs between two calls on the same ones, where they fit."""
EAGER = ("optim", "sparse")
"""Ops that are timed without graphs, of which some contestant cannot be in one."""
LONG_US = 5000.0
"""Calls that take longer are made less often."""
COMPILED = 2
"""Sizes of an op, the first ones, at which what is compiled is timed: a compilation takes seconds."""


def chosen(groups: list[str]) -> Iterator[Timed]:
    """Yield what is timed, groups in turn, without what is compiled beyond the first sizes."""
    waiting = [GROUPS[name]() for name in groups]
    seen: Counter[str] = Counter()
    while waiting:
        for group in list(waiting):
            one = next(group, None)
            if one is None:
                waiting.remove(group)
                continue
            seen[one.op] += 1
            if seen[one.op] > COMPILED:
                for name in [n for n in one.contestants if n.startswith("compile")]:
                    del one.contestants[name]
            for name, call in one.contestants.items():
                if name.startswith("compile"):
                    one.contestants[name] = torch.compile(call, dynamic=False)
            yield one


def sets_of(one: Timed) -> list[tuple[Any, ...]]:
    """Draw inputs, as many as lie further apart than the cache is large."""
    first = one.make()
    size = sum(
        t.numel() * t.element_size()
        for t in first
        if isinstance(t, torch.Tensor) and t.layout is torch.strided
    )
    if not size:
        return [first]
    least = min(size, one.bytes or size)
    return [first, *(one.make() for _ in range(min(24, math.ceil(APART / least)) - 1))]


def graph_of(call: Call, sets: list[tuple[Any, ...]], calls: int) -> Callable[[], object]:
    """Capture some calls, and return their replay."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(*sets[i % len(sets)])
    return graph.replay


def eager_of(call: Call, sets: list[tuple[Any, ...]], calls: int) -> Callable[[], object]:
    """Return some calls one after another, queued while the GPU waits."""

    def run() -> None:
        torch.cuda._sleep(2_000_000)
        for i in range(calls):
            call(*sets[i % len(sets)])

    return run


def took_us(run: Callable[[], object], rest_us: float = 0.0) -> float:
    """Return the microseconds that the GPU takes."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 - rest_us


def measured(one: Timed, rounds: int) -> dict[str, Any]:
    """Return a row of one op at one size."""
    sets = sets_of(one)
    row: dict[str, Any] = {
        "op": one.op,
        "size": one.size,
        "sets": len(sets),
        "bytes": one.bytes,
        "flops": one.flops,
    }
    results, memory = {}, {}
    for name, call in one.contestants.items():
        call(*sets[0])
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        found = call(*sets[0])
        results[name] = [] if found is None else [t.detach() for t in flat(found)]
        memory[name] = (torch.cuda.max_memory_allocated() - before) >> 20
    row["peak_mib"] = memory
    row["differences"] = differences(results)
    del results
    with gpu():
        wall = {name: host_us(call, sets) for name, call in one.contestants.items()}
    row["wall_us"] = {name: round(w, 2) for name, w in wall.items()}
    rounds = rounds if min(wall.values()) < LONG_US else 3
    calls = max(len(sets), min(64, int(1500 / max(min(wall.values()), 1))))
    eager = one.op.split(".")[0] in EAGER
    how = eager_of if eager else graph_of
    runs = {name: how(call, sets, calls) for name, call in one.contestants.items()}
    rest = (
        statistics.median(took_us(lambda: torch.cuda._sleep(2_000_000)) for _ in range(5)) if eager else 0.0
    )
    times: dict[str, list[float]] = {name: [] for name in runs}
    with gpu():
        for number in range(rounds + 1):
            for name, run in runs.items():
                each = took_us(run, rest) / calls
                if number:
                    times[name].append(each)
    row |= {"mode": "eager" if eager else "graph", "calls": calls, "rounds": rounds}
    row["times_us"] = {name: round(statistics.median(taken), 3) for name, taken in times.items()}
    row["spread_us"] = {name: [round(min(t), 3), round(max(t), 3)] for name, t in times.items()}
    return row


def host_us(call: Call, sets: list[tuple[Any, ...]]) -> float:
    """Return the wall microseconds of a call among others, the processor's work included."""
    for calls in (1, 10):
        begun = time.perf_counter()
        for i in range(calls):
            call(*sets[i % len(sets)])
        torch.cuda.synchronize()
        each = (time.perf_counter() - begun) / calls * 1e6
        if each > LONG_US:
            break
    return each


def differences(results: dict[str, list[torch.Tensor]]) -> dict[str, float]:
    """Return how far ours is from each other contestant, of the largest number."""
    mine = results["ours"]
    found = {}
    for name, theirs in results.items():
        if name != "ours" and mine and theirs:
            one, other = mine[0].double(), theirs[0].double()
            found[name] = float((one - other).abs().max() / other.abs().max())
    return found


def peaks() -> dict[str, Any]:
    """Measure what the GPU copies and multiplies."""
    x, y = (torch.empty(1 << 29, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    with gpu():
        copy = min(took_us(lambda: y.copy_(x)) for _ in range(10))
        multiply = statistics.median(took_us(lambda: a @ b) for _ in range(10))
    return {
        "copy_gbps": round(4 * x.numel() / copy / 1e3, 1),
        "bf16_tflops": round(2 * 8192**3 / multiply / 1e6, 1),
    }


def main() -> int:
    """Time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", nargs="+", default=list(GROUPS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("/dev/stdout"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    until = time.monotonic() + options.seconds
    with options.out.open("a") as out:

        def told(row: dict[str, Any]) -> None:
            out.write(json.dumps(row) + "\n")
            out.flush()

        told({"op": "peaks", **peaks()})
        for one in chosen(options.groups):
            if time.monotonic() > until:
                told({"op": one.op, "size": one.size, "status": "no time"})
                continue
            try:
                told(measured(one, 9))
            except Exception as error:  # noqa: BLE001  whatever it is, it is told of
                lines = traceback.format_exc().splitlines()[-16:]
                told(
                    {
                        "op": one.op,
                        "size": one.size,
                        "status": f"{type(error).__name__}: {error}"[:300],
                        "trace": lines,
                    }
                )
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
