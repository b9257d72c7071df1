"""The compiler's program for every task of KernelCraft on one instruction set, judged on hidden sizes; rows kept.

    python -m benchmarks.craft --isa riscv --out rows.jsonl

A row is a task and a known program: the baseline, and where there is one the program with vectors. The exit code is 0
where every program is right and every baseline scores 1.

Covers: right or wrong, counted instructions or cycles of a model. Does not cover: times; programs of a model.
"""

import argparse
import json
import sys
from pathlib import Path

from kernelwright.craft import TASKS, find_backend, judge
from kernelwright.errors import MissingToolError


def main() -> int:
    """Judge every known program of every task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--isa", default="riscv")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines file to add rows to")
    words = parser.parse_args()
    backend = find_backend(words.isa)
    if missing := backend.missing():
        raise MissingToolError(missing)
    wrong = 0
    for task in TASKS.values():
        for number, (name, text) in enumerate(backend.programs(task).items()):
            verdict = judge(task, backend, text)
            ok = verdict.status == "right" and (number > 0 or verdict.score == 1.0)
            wrong += not ok
            row = {"isa": words.isa, "task": task.name, "level": task.level, "program": name, "ok": ok}
            row |= {"status": verdict.status, "cost": verdict.cost, "unit": backend.unit}
            row |= {"score": verdict.score and round(verdict.score, 3), "message": verdict.message}
            with words.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                f"{task.name} {name}: {verdict.status} {verdict.cost} {verdict.score}",
                file=sys.stderr,
                flush=True,
            )
    print(f"{len(TASKS)} tasks on {words.isa}; programs that are not right: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
