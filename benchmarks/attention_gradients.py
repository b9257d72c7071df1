"""Attention with its gradients, forward and backward as one call: the compiler's first kernel against torch.

    python -m benchmarks.attention_gradients [--only causal] [--threads 1] [--rounds 9] [--judge 9] [--out rows.jsonl]

The four lines, with and without a causal mask, and with keys that four heads share, in float32: eager, torch.compile
and torch's operator through autograd, and the kernel that the compiler proposes first for the backward task. All are
called in turn; one thread is timed in CPU seconds, several by a clock. A kernel whose outputs are further from float64
than ten times eager's is refused. With `--judge` the judge decides about that kernel instead,
within so many minutes a problem.
"""

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from kernelwright import optimize
from kernelwright.compiler import schedules
from kernelwright.languages import get_language
from kernelwright.records import Budget, Interval
from kernelwright.tasks import Problem, load_task

SHAPES = [(2, 8, 512, 64), (2, 8, 1024, 64), (1, 4, 2048, 64)]
LINES = {
    "plain": "return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v",
    "causal": "late = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)\n"
    "    return torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(late, -math.inf), -1) @ v",
    "shared": "k, v = (x.repeat_interleave(4, 1) for x in (k, v))\n"
    "    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v",
}
HEAD = "import math\nimport torch\nimport kernelwright as kw\n\n"
Call = Callable[[], Any]


def task_of(kind: str, shape: tuple[int, ...], folder: Path) -> Path:
    """Write the task of a kind."""
    sizes = dict(zip(("batch", "heads", "seq", "half"), shape, strict=True))
    times = ""
    if kind == "shared":
        sizes["heads"], times = sizes["heads"] // 4, " * 4"
    declared = ", ".join(f'{n}="float32[batch, heads{times if n == "q" else ""}, seq, half]"' for n in "qkv")
    path = folder / "task.py"
    text = f"@kw.task({declared}, workloads=[{sizes}])\ndef attention(q, k, v):\n    {LINES[kind]}\n"
    path.write_text(HEAD + text)
    return path


def judged(kind: str, shape: tuple[int, ...], folder: Path, minutes: float) -> dict[str, Any]:
    """Return what the judge says of the first kernel."""
    result = optimize(
        load_task(str(task_of(kind, shape, folder)), backward=True), store=folder / "store", languages=("cpp",),
        proposers=("schedule",), budget=Budget(evaluations=1, minutes=minutes),
    )  # fmt: skip
    return result.model_dump(
        mode="json",
        include={"decision", "speedup", "baseline", "bound_us", "time_us", "fraction_of_bound", "reason"},
    )


def ways_of(problem: Problem, kind: str) -> tuple[dict[str, Call], str]:
    """Return every way to compute the task as a call, and the name of the schedule.

    Raises:
        RuntimeError: the kernel is missing, or wrong.
    """
    workload = problem.task.workloads[0]
    given, state = problem.inputs(workload, 0), problem.state(workload, 0)
    reference, leaves = (
        problem.reference(workload),
        [x.requires_grad_() for x in problem.inputs(workload, 0)[:3]],
    )

    def through(function: Callable[..., torch.Tensor]) -> Call:
        def call() -> tuple[torch.Tensor, ...]:
            out = function(*leaves)
            return out, *torch.autograd.grad(out, leaves, given[3])

        return call

    (schedule,) = islice(schedules(problem, ("cpp",)), 1)
    candidate, language = schedule.render(schedule.default()), get_language("cpp")
    build = language.build(candidate, deadline_s=400)
    kernel: Any = language.load(candidate, Path(str(build.artefact)), workload.outputs)
    right = problem.run_oracle(workload, given, state).outputs
    native = problem.run_reference(workload, given, state).outputs
    for found, eager, wanted in zip(kernel(*given), native, right, strict=True):
        if not float((found - wanted).abs().max()) <= 10 * float((eager - wanted).abs().max()):
            raise RuntimeError(f"{schedule.name} is wrong")
    ways = {
        "eager": through(reference), "compile": through(torch.compile(reference)),
        "operator": through(lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, is_causal=kind == "causal", enable_gqa=kind == "shared")),
        "own": lambda: kernel(*given),
    }  # fmt: skip
    return ways, schedule.name


def timed(ways: dict[str, Call], rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Return milliseconds of every call, all ways in turn after one call each."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for call in ways.values():
        call()
    for _ in range(rounds):
        for name, call in ways.items():
            begun = clock()
            call()
            found[name].append(round(1e3 * (clock() - begun), 3))
    return found


def rows(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind and shape."""
    clock = time.process_time if given.threads == 1 else time.perf_counter
    for kind in LINES:
        for shape in SHAPES:
            name = f"{kind} {shape[0]}x{shape[1]} {shape[2]}x{shape[3]}"
            if given.only in name:
                with tempfile.TemporaryDirectory() as made:
                    folder = Path(made)
                    row = {"problem": name, "threads": given.threads, "load": round(os.getloadavg()[0], 1)}
                    if given.judge:
                        yield row | judged(kind, shape, folder, given.judge)
                        continue
                    problem = Problem(load_task(str(task_of(kind, shape, folder)), backward=True))
                    ways, schedule = ways_of(problem, kind)
                found = timed(ways, given.rounds, clock)
                yield row | {
                    "schedule": schedule,
                    "clock": "cpu" if given.threads == 1 else "wall",
                    "ms": found,
                }


def told(row: dict[str, Any]) -> str:
    """Return how many times as long the others took, medians over rounds of ratios."""
    if "ms" not in row:
        times = Interval.model_validate(row["speedup"]) if row["speedup"] else "not timed,"
        return f"{row['problem']}: {row['decision']}, {times} times as fast as {row['baseline']}; {row['reason']}"
    own = row["ms"]["own"]
    ratios = {
        name: statistics.median(a / b for a, b in zip(took, own, strict=True))
        for name, took in row["ms"].items() if name != "own"
    }  # fmt: skip
    least = math.inf if not ratios else min(ratios.values())
    parts = [f"{name} {ratio:.2f}" for name, ratio in ratios.items()]
    return f"{row['problem']}: own {statistics.median(own):.1f} ms; {', '.join(parts)}; over the best {least:.2f}"


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="part of the names of problems")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--judge", type=float, default=0.0, help="minutes of the judge for a problem, instead of timing"
    )
    parser.add_argument("--out", type=Path, help="JSON lines file that rows are added to")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for row in rows(given):
        print(told(row), flush=True)
        if given.out:
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
