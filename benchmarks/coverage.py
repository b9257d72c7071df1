"""How far the schedule proposer gets on KernelBench's problems, or on the own ones of the same kinds.

    python -m benchmarks.coverage own [--level 1] [--max-elements 2e5] [--language cpp] [--out rows.jsonl]
    python -m benchmarks.coverage path/to/KernelBench [--only softmax] [--json]

DIR is a checkout, or a folder in it, that holds `level1`, `level2` and `level3`. Each problem is captured,
printed, built and verified (the cheap checks, on the search workload, in a closed worker), template by
template until one passes. `native` is the share of the captured operations that stay with torch in the
template that passed; `first` are the seconds from capture to the first correct kernel, beside those of CPU time that
capture, printing and compiling took (the worker's are not in them), which other load changes little. A row is
written to `--out` as soon as it is known, and rows that are there already are not made again.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.errors import KernelwrightError
from kernelwright.languages import get_language
from kernelwright.propose import Request
from kernelwright.propose.schedule import ScheduleProposer
from kernelwright.records import BuildStatus, Split
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import trace
from kernelwright.verify import Oracle, verify

from .problems import OWN, problems

Row = dict[str, Any]
STAGES = ("captured", "printed", "built", "verified")
TARGETS = {1: 0.9, 2: 0.9, 3: 0.8}
"""Share of each level that is to be verified."""
_ARENA_BYTES = 256 << 20
_LOAD_MINUTES, _STEP_S = 15, 600.0
"""What loading a problem, and building or verifying a candidate, may take: whole networks, on busy machines."""


def folder_of(target: str) -> Path:
    """Return the folder that holds the levels: the own problems, or those of a checkout.

    Raises:
        FileNotFoundError: there is no `level1` ... under the folder.
    """
    if target == "own":
        return OWN
    for folder in (Path(target), Path(target) / "KernelBench"):
        if any(folder.glob("level[0-9]")):
            return folder
    raise FileNotFoundError(
        f"{target!r} holds no level1, level2 ...; expected 'own' or a KernelBench checkout"
    )


def examine(path: Path, level: int, pool: Pool, *, language: str, max_elements: int | None) -> Row:
    """Take one problem as far as it goes and say where it stopped."""
    row: Row = {"level": level, "problem": path.stem, **dict.fromkeys(STAGES, False), "why": ""}
    try:
        task = load_task(path, max_elements=max_elements, minutes=_LOAD_MINUTES)
        problem = Problem(task)
        started = time.monotonic()
        graph = trace(problem, task.split(Split.SEARCH)[0])
        row |= {"captured": True, "capture_s": time.monotonic() - started, "operations": len(graph.ops)}
        _try_templates(row, problem, pool, language, len(graph.ops))
    except KernelwrightError as error:
        row["why"] = str(error).splitlines()[0]
    except Exception as error:  # noqa: BLE001 - a problem that breaks the engine is a row, not the end
        row["why"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
    return row


def _try_templates(row: Row, problem: Problem, pool: Pool, language: str, operations: int) -> None:
    started, cpu_s = time.monotonic(), _cpu_s()
    oracle, used = Oracle(problem), get_language(language)
    request = Request(problem=problem, device=detect(None), bounds=(), languages=(language,))
    row["why"] = "no template"
    for template in ScheduleProposer().propose(request):
        candidate = template.render(template.default())
        row |= {"printed": True, "template": template.name}
        build = used.build(candidate, deadline_s=_STEP_S)
        if build.status is not BuildStatus.OK:
            row["why"] = (
                f"build: {build.diagnostics.strip().splitlines()[0] if build.diagnostics else build.status}"
            )
            continue
        row["built"] = True
        verdict = verify(
            problem, candidate, build, pool=pool, depth="screen", deadline_s=_STEP_S, oracle=oracle
        )
        if verdict.status == "accepted":
            natives = len({op for op in _natives(template) if op})
            row |= {"verified": True, "why": "", "first_s": time.monotonic() - started}
            row["first_cpu_s"] = _cpu_s() - cpu_s
            row["native_share"] = natives / max(1, operations)
            return
        said = next((f for f in verdict.findings if f.status != "pass"), None)
        row["why"] = f"{said.check}: {said.message}" if said else str(verdict.status)


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of the compilers that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _natives(template: Any) -> Iterator[str]:
    """Name the captured operations that torch computes under a template's decisions."""
    from kernelwright.compiler.lower import lower

    state = template.leaf.state
    yield from (step.name for step in lower(state.graph, state.decisions).natives)


def table(rows: Sequence[Row]) -> str:
    """Return the table: a line a problem, then a line a level."""
    marks = {True: "yes", False: "-"}
    head = f"{'problem':44} {'captured':8} {'printed':8} {'built':8} {'verified':8} {'native':>7} {'first':>7}  why"
    lines = [head]
    for row in rows:
        told = [f"{marks[row[stage]]:8}" for stage in STAGES]
        native = f"{100 * row['native_share']:.0f} %" if "native_share" in row else ""
        first = f"{row['first_s']:.1f} s" if "first_s" in row else ""
        name = f"{row['level']}/{row['problem']}"[:44]
        lines.append(f"{name:44} {' '.join(told)} {native:>7} {first:>7}  {row['why'][:90]}")
    for level in sorted({row["level"] for row in rows}):
        of = [row for row in rows if row["level"] == level]
        counts = ", ".join(f"{sum(r[stage] for r in of)} {stage}" for stage in STAGES)
        times = sorted(r["first_s"] for r in of if "first_s" in r)
        median = f", median {times[len(times) // 2]:.1f} s to the first correct kernel" if times else ""
        cpu = sorted(row["first_cpu_s"] for row in of if "first_cpu_s" in row)
        median += f" ({cpu[len(cpu) // 2]:.1f} s of CPU time)" if cpu else ""
        share = TARGETS.get(level)
        wanted = f" (target {share:.0%} verified)" if share else ""
        lines.append(f"level {level}: {len(of)} problems: {counts}{wanted}{median}")
    return "\n".join(lines)


def read_rows(path: Path | None) -> list[Row]:
    """Return the rows of an earlier run."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def main() -> None:
    """Examine what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", help="'own', or a folder with level1, level2, level3")
    parser.add_argument("--level", type=int)
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--max-elements", type=float, default=2e5)
    parser.add_argument("--language", default="cpp")
    parser.add_argument("--out", type=Path, help="JSON lines file to add rows to, and to go on from")
    parser.add_argument("--json", action="store_true", help="print rows as JSON lines instead of the table")
    options = parser.parse_args()
    rows = read_rows(options.out)
    done = {(r["level"], r["problem"]) for r in rows}
    with Pool(Settings.from_environment(), arena_bytes=_ARENA_BYTES) as pool:
        for level, path in problems(folder_of(options.target), options.level):
            if options.only not in path.stem or (level, path.stem) in done:
                continue
            row = examine(
                path, level, pool, language=options.language, max_elements=int(options.max_elements)
            )
            rows.append(row)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(
                f"{level}/{path.stem}: {'verified' if row['verified'] else row['why']}",
                file=sys.stderr,
                flush=True,
            )
    print("\n".join(map(json.dumps, rows)) if options.json else table(rows))


if __name__ == "__main__":
    main()
