"""Contestants that are timed in turn, in one process, on the same inputs; and the command line of a family's script.

With one thread the clock is the CPU time of the thread, which a busy machine disturbs little; with more it is the wall.
All write to recycled memory: glibc keeps what is freed, so that nobody pays for page faults that another does not.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

Call = Callable[[], object]
_RECYCLED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 28)}
_LEAST_S = 0.002
"""Seconds that the calls of one turn take together at least."""


@dataclass(frozen=True)
class Case:
    """One op at one size."""

    op: str
    size: str
    dtype: str
    contestants: Mapping[str, Call]
    """`kernel`, and those it is held to. Their results are compared before they are timed."""
    tolerance: float = 1e-4
    """Largest difference of results, relative to the largest number in them."""
    truth: Call | None = None
    """The same of the same numbers in float64. Where it is given, the kernel is held to it, and the others' differences
    from it go into the row: they may be of sums that are kept in 16 bits."""
    own_threads: bool = False
    """Whether a contestant computes in threads of its own: then the clock is the CPU time of the process."""


def turns(case: Case, rounds: int, threads: int) -> dict[str, object]:
    """Time the contestants of a case in rounds, and return a row: medians, least times, and the ratio to the best."""
    errors = _errors(case)
    clock = time.process_time if case.own_threads else time.thread_time
    clock = clock if threads == 1 else time.perf_counter
    calls = {name: _calls(call, clock) for name, call in case.contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            call, begun = case.contestants[name], clock()
            for _ in range(calls[name]):
                call()
            times[name].append((clock() - begun) / calls[name] * 1e6)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    best = min((name for name in names if name != "kernel"), key=medians.__getitem__)
    ratios = sorted(other / own for other, own in zip(times[best], times["kernel"], strict=True))
    return {
        "op": case.op, "size": case.size, "dtype": case.dtype, "threads": threads, "rounds": rounds,
        "clock": "wall" if threads > 1 else "process CPU" if case.own_threads else "thread CPU",
        "times_us": {name: round(value, 2) for name, value in medians.items()},
        "least_us": {name: round(min(taken), 2) for name, taken in times.items()}, "best": best,
        "ratio": round(statistics.median(ratios), 3),
        "ratio_quartiles": [round(ratios[len(ratios) // 4], 3), round(ratios[len(ratios) * 3 // 4], 3)],
    } | ({"errors": errors} if errors else {})  # fmt: skip


def _errors(case: Case) -> dict[str, float]:
    """Stop where the kernel is wrong; return by how much each differs from float64, if that is given."""
    results = {name: _flat(call()) for name, call in case.contestants.items()}
    if case.truth is None:
        for name, theirs in results.items():
            _hold(case, name, _apart(results["kernel"], theirs))
        return {}
    truth = _flat(case.truth())
    errors = {name: float(f"{_apart(theirs, truth):.2g}") for name, theirs in results.items()}
    _hold(case, "float64", errors["kernel"])
    return errors


def _apart(some: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    """Return the largest difference of results, relative to the largest number of each."""
    found = [
        (mine.double() - theirs.double()).abs().max().item() / max(theirs.abs().max().item(), 1e-6)
        for mine, theirs in zip(some, right, strict=False)
        if theirs.numel()
    ]
    return max(found, key=lambda apart: (apart != apart, apart), default=0.0)  # NaN above all


def _hold(case: Case, name: str, apart: float) -> None:
    if not apart <= case.tolerance:
        raise SystemExit(
            f"{case.op} {case.size} {case.dtype}: differs from {name} by {apart:.2g} of the largest number"
        )


def _flat(result: Any) -> list[torch.Tensor]:
    given = result if isinstance(result, tuple | list) else (result,)
    return [r.detach() for r in given if isinstance(r, torch.Tensor) and r.layout is torch.strided]


def _calls(call: Call, clock: Callable[[], float]) -> int:
    call()
    begun, count = clock(), 0
    while clock() - begun < _LEAST_S and count < 10_000:
        call()
        count += 1
    return count


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch.compile's form of a function, of any sizes, so that a script compiles each op once for a dtype."""
    made: Callable[..., Any] = torch.compile(function, dynamic=True)
    return made


def backward(form: Callable[..., Any], tensors: list[torch.Tensor], dtype: torch.dtype | None = None) -> Call:
    """Return the backward pass of a form, on its own graph; slopes are of numbers of `dtype`, the outputs' if none."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = form(*leaves)
    outs = out if isinstance(out, tuple) else (out,)
    seeded = torch.Generator().manual_seed
    gradients = [torch.randn(o.shape, dtype=dtype or o.dtype, generator=seeded(1)).to(o.dtype) for o in outs]
    return lambda: torch.autograd.grad(outs, leaves, gradients, retain_graph=True, allow_unused=True)


def main(cases: Callable[[str], Iterable[Case]], module: str, argv: list[str] | None = None) -> None:
    """Run a family's script: `cases` makes them for a word that their op contains."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--only", default="", help="a word in the op's name")
    parser.add_argument("--op", help="the whole name of the only op")
    parser.add_argument("--dtype", help="the only dtype, as rows name it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--without", action="append", default=[], help="a contestant to leave out")
    parser.add_argument("--out", type=Path, help="JSONL file to append rows to")
    given = parser.parse_args(argv)
    wanted = {**_RECYCLED, "OMP_NUM_THREADS": str(given.threads)}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], {**os.environ, **wanted})
    torch.set_num_threads(given.threads)
    for case in cases(given.only or given.op or ""):
        if (given.op or case.op, given.dtype or case.dtype) != (case.op, case.dtype):
            continue
        left = {name: call for name, call in case.contestants.items() if name not in given.without}
        case = replace(case, contestants=left)
        row = {"family": module.rpartition(".")[2], **turns(case, given.rounds, given.threads)}
        print(
            f"{row['op']:28} {row['size']:>16} {row['dtype']:9} {row['ratio']:6.2f} x {row['best']:10}",
            row["times_us"],
        )
        sys.stdout.flush()
        if given.out:
            with given.out.open("a") as rows:
                rows.write(json.dumps(row) + "\n")
