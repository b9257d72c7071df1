"""What the schedule engine gains on software devices, in WGSL and OpenCL C, over a naive kernel an operation.

    python -m benchmarks.devices --out rows.jsonl [--language wgsl] [--only softmax] [--max-elements 200000]
    python -m benchmarks.devices --table rows.jsonl

For every own problem that a language prints: the best schedule by the estimate, and the same graph with every
operation as a kernel of its own that stores its result. Both are held against the reference in float64, then
timed in turns on the same inputs, transfers included; a row keeps every time. Rows that are there are not
measured again. A software device tells schedules apart, it says nothing about a GPU.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from kernelwright.compiler.actions import offered
from kernelwright.compiler.graph import Graph, NotSchedulable, read
from kernelwright.compiler.lower import Decisions, lower
from kernelwright.compiler.policy import beam
from kernelwright.compiler.printers import Unprintable, forms_of, printer_of
from kernelwright.compiler.tile import Program
from kernelwright.languages import get_language
from kernelwright.records import Split, TensorSpec
from kernelwright.tasks import Problem, load_task

from .coverage import Row, read_rows
from .problems import problems

LANGUAGES = ("wgsl", "opencl")
TURNS = 9


def measure(problem: Problem, language: str, turns: int = TURNS) -> Row:
    """Return what both kernels are off by, and their times in microseconds; or why there is none."""
    workload = problem.task.split(Split.SEARCH)[0]
    inputs, state = problem.inputs(workload, 0), problem.state(workload, 0)
    given = [
        t.contiguous() for t in (*inputs, *(state[s.name] for s in workload.state)) if torch.is_tensor(t)
    ]
    right = problem.run_oracle(workload, inputs, state).outputs
    own = problem.run_reference(workload, inputs, state).outputs
    try:
        graph = read(problem)
        actions, best = _best(graph, language, own)
        naive = _loaded(graph, lower(graph, Decisions(apart=True)), language, own)
        kernels = {"schedule": best, "naive": naive}
        off = {name: _off(kernel(*given), right) for name, kernel in kernels.items()}
    except (NotSchedulable, Unprintable, NotImplementedError) as error:
        return {"language": language, "refused": str(error)}
    times: dict[str, list[float]] = {name: [] for name in kernels}
    for _ in range(turns):
        for name, kernel in kernels.items():
            started = time.perf_counter()
            kernel(*given)
            times[name].append(1e6 * (time.perf_counter() - started))
    return {"language": language, "actions": actions, "off": off, "times_us": times}


def _best(graph: Graph, language: str, own: Sequence[torch.Tensor]) -> tuple[str, Callable[..., object]]:
    """Return the actions and the kernel of the best schedule that the language prints."""
    for leaf in beam(graph, actions=offered(forms_of(language))):
        try:
            assert leaf.state.program is not None
            return leaf.state.text, _loaded(leaf.state.graph, leaf.state.program, language, own)
        except Unprintable:
            continue
    return "", _loaded(graph, lower(graph), language, own)


def _loaded(
    graph: Graph, program: Program, language: str, own: Sequence[torch.Tensor]
) -> Callable[..., object]:
    printer = printer_of(language)
    assert printer is not None
    outputs = tuple(
        TensorSpec(name=f"o{i}", shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
        for i, t in enumerate(own)
    )
    return get_language(language).load(printer(program, graph), None, outputs)


def _off(got: object, right: Sequence[torch.Tensor]) -> float:
    """Return the largest difference, relative to the largest value."""
    found = got if isinstance(got, tuple) else (got,)
    pairs = zip(found, right, strict=True)
    return max(float((a.double() - b).abs().max() / b.abs().max().clamp(min=1e-9)) for a, b in pairs)


def gain(row: Row) -> float:
    """Return how many times faster the schedule is, by medians.

    Example:
        >>> gain({"times_us": {"schedule": [2.0, 1.0, 9.0], "naive": [4.0, 4.0, 4.0]}})
        2.0
    """
    times = row["times_us"]
    assert isinstance(times, dict)
    return statistics.median(times["naive"]) / statistics.median(times["schedule"])


def table(rows: Sequence[Row]) -> str:
    """Return a line a row, then a geomean a language."""
    lines = []
    for row in rows:
        said = (
            str(row["refused"]) if "refused" in row else f"{gain(row):6.2f} times, off by {_worst(row):.1e}"
        )
        lines.append(f"{row['language']!s:7} {row['problem']!s:36} {said}")
    for language in LANGUAGES:
        of = [row for row in rows if row["language"] == language]
        gains = [gain(row) for row in of if "times_us" in row]
        if gains:
            lines.append(
                f"{language}: {len(gains)} of {len(of)} problems printed, "
                f"geomean over a naive kernel an operation {statistics.geometric_mean(gains):.2f}"
            )
    return "\n".join(lines)


def _worst(row: Row) -> float:
    off = row["off"]
    assert isinstance(off, dict)
    return max(off.values())


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="JSON lines file to add rows to")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    parser.add_argument("--language", action="append", choices=LANGUAGES, default=[])
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--max-elements", type=int, default=200_000)
    options = parser.parse_args()
    path = options.table or options.out
    if path is None:
        parser.error("give --out FILE to measure or --table FILE to print")
    rows: list[Row] = read_rows(path)
    done = {(row["language"], row["problem"]) for row in rows}
    languages = [name for name in options.language or LANGUAGES if get_language(name).available().ok]
    for _, file in problems() if options.out else ():
        for language in languages:
            if options.only in file.stem and (language, file.stem) not in done:
                task = load_task(file, max_elements=options.max_elements)
                rows.append({"problem": file.stem, **measure(Problem(task), language)})
                with path.open("a") as out:
                    out.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
