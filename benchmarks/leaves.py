"""Every schedule of a task against eager and torch.compile: one process and core, calls in turn, CPU seconds.

    taskset -c 0 python -m benchmarks.leaves FILE.py... [--max-elements 4e6] [--seconds 6] [--out rows.jsonl]

Nothing is verified but the largest error relative to the largest result, and nothing is tuned: it tells what the search
would find if it had the time, and whether a form is worth anything where the machine is too busy for a judge.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from kernelwright.compiler import schedules
from kernelwright.languages import get_language
from kernelwright.languages.prepared import prepared
from kernelwright.records import BuildStatus, Candidate, Split, Workload
from kernelwright.tasks import Problem, load_task

Row = dict[str, Any]
Call = Callable[[], Any]
_LEAST_CALLS = 5


def loaded(
    candidate: Candidate, workload: Workload, inputs: list[Any], state: dict[str, torch.Tensor]
) -> Call | None:
    """Return a call of a candidate, with weights that are packed once; none if it does not build."""
    language = get_language(candidate.language)
    build = language.build(candidate)
    if build.status is not BuildStatus.OK or build.artefact is None:
        return None
    kernel = language.load(candidate, Path(build.artefact), workload.outputs)
    kernel = prepared(kernel, tuple(state)) or kernel
    return lambda: kernel(*inputs, *state.values())


def error_of(result: Any, expected: tuple[torch.Tensor, ...]) -> float:
    """Return the largest error relative to the largest result."""
    found = result if isinstance(result, tuple | list) else (result,)
    pairs = zip(found, expected, strict=True)
    return max(float((a.double() - b.double()).abs().max() / b.double().abs().max()) for a, b in pairs)


def examine(file: Path, max_elements: int | None, seconds: float) -> Iterator[Row]:
    """Yield a row for every schedule of a task, the fastest first."""
    problem = Problem(load_task(file, max_elements=max_elements))
    workload = problem.task.split(Split.SEARCH)[-1]
    inputs, state = problem.inputs(workload, 0), problem.state(workload, 0)
    expected = problem.run_reference(workload, inputs, state).outputs
    reference = problem.reference(workload, state)
    compiled = torch.compile(reference)
    variants: dict[str, Call] = {"eager": lambda: reference(*inputs), "compile": lambda: compiled(*inputs)}
    errors = dict[str, float]()
    for schedule in schedules(problem, ("cpp",)):
        own = {name: tensor.clone() for name, tensor in state.items()}
        call = loaded(schedule.render(schedule.default()), workload, inputs, own)
        if call is not None:
            errors[schedule.name] = error_of(call(), expected)
            variants[schedule.name] = call
    times = timed(variants, seconds)
    best = min(times["eager"], times["compile"])
    for name, time_s in sorted(times.items(), key=lambda item: item[1]):
        yield {
            "problem": file.stem, "schedule": name, "ms": round(time_s * 1e3, 4),
            "over_best_of_eager_and_compile": round(best / time_s, 3), "error": errors.get(name),
        }  # fmt: skip


def timed(variants: dict[str, Call], seconds: float) -> dict[str, float]:
    """Return the median CPU seconds of a call of each variant, in alternation."""
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for call in variants.values():
        call()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or len(taken["eager"]) < _LEAST_CALLS:
        for name, call in variants.items():
            started = time.process_time()
            call()
            taken[name].append(time.process_time() - started)
    return {name: statistics.median(found) for name, found in taken.items()}


def main() -> None:
    """Print and write the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--max-elements", type=float)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    most = None if options.max_elements is None else int(options.max_elements)
    with torch.no_grad():
        for file in options.files:
            for row in examine(file, most, options.seconds):
                print(json.dumps(row), flush=True)
                if options.out is not None:
                    with options.out.open("a") as out:
                        out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
