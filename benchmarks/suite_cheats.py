"""Planted cheats and honest kernels under every benchmark's own rules and under ours.

    python -m benchmarks.suite_cheats [--suite NAME ...] [--operator NAME ...] [--only NAME] [--out rows.jsonl]
                                      [--kind cheats] [--sample COUNT --seed SEED]
    python -m benchmarks.suite_cheats --table rows.jsonl [rows.jsonl ...]

A file of `tests/suites/cheats` or `tests/suites/honest` is a `ModelNew` that calls `honest(x)`, the right answer, and
is given to each benchmark in its own form (`planted_suites.py`): those of `any` for every operator, those of `softmax`
and honest ones for that, the others by the rules of one benchmark. A row that `--out` has is not made again. A cheat
passes if our verdict accepts it; for one whose answers are right, and which only cheats the clock, if it improves.
Where our verdict accepts nothing (`PROGRAMS`), an honest kernel passes if it is not refused. The exit code is 1 where a
cheat passes or an honest kernel is refused.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelwright.api.judge import judging
from kernelwright.suites import Ours, Theirs, judge_both, ours_of, setup, theirs_of
from kernelwright.suites._programs import ProgramForm

from .planted_programs import OPERATOR, PROGRAMS, PlantedProgram, plant_program
from .planted_suites import FORMS, OPERATORS, Planted, plant

HOME = Path(__file__).resolve().parents[1] / "tests" / "suites"
KINDS = ("cheats", "honest")
"""Folders of kernels: those that must be refused, and those that must be accepted."""
_RIGHT = frozenset({"reference_slowed"}).union(*(form.right for form in PROGRAMS.values()))
"""Cheats whose answers are right."""
_SUITES = {
    **{name: form.operators for name, form in FORMS.items()}, **dict.fromkeys(PROGRAMS, (OPERATOR,))
}  # fmt: skip
"""What is planted in each benchmark."""
_ONE_SIZE = "declared_size_only"
"""The cheat that is none where a problem has one size alone."""


def kernels(planted: Planted | PlantedProgram, only: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the kind and the file of every kernel for a planted problem."""
    if isinstance(planted, PlantedProgram):
        yield from ((kind, file) for kind, file in planted.kernels(HOME) if only in file.stem)
        return
    own = ("softmax",) if planted.operator == "softmax" else ()
    for folder in ("any", *own, *planted.form.cheats):
        for file in sorted((HOME / "cheats" / folder).glob("*.py")):
            if only in file.stem and not (planted.form.one_size and file.stem == _ONE_SIZE):
                yield "cheats", file
    if own:
        yield from (("honest", f) for f in sorted((HOME / "honest").glob("*.py")) if only in f.stem)


def planted_in(suite: str, operator: str, folder: Path) -> Planted | PlantedProgram:
    """Write a checkout of a benchmark with the planted problem."""
    return plant_program(suite, folder) if suite in PROGRAMS else plant(suite, operator, folder)


def sampled(
    planted: Planted | PlantedProgram, only: str, count: int | None, seed: int
) -> list[tuple[str, Path]]:
    """Return the kernels for a planted problem, or `count` of them that the seed draws."""
    found = list(kernels(planted, only))
    dice = random.Random(f"{seed} {planted.suite.name} {planted.operator}")
    return found if count is None or count >= len(found) else sorted(dice.sample(found, count))


@contextmanager
def both_verdicts(
    planted: Planted | PlantedProgram, folder: Path
) -> Iterator[Callable[[Path], tuple[Theirs, Ours]]]:
    """Open both verdicts on kernels for a planted problem, all in one process and one run."""
    if isinstance(planted.suite, ProgramForm):
        with setup(planted.suite, planted.data, store=folder / "store", device="cpu") as given:

            def both(kernel: Path) -> tuple[Theirs, Ours]:
                row = judge_both(given, planted.problem, kernel)
                return row.theirs, row.ours

            yield both
        return
    with (
        setup(planted.suite, planted.data, store=folder / "store", device="cpu") as given,
        given.task(planted.problem) as task,
        judging(task, device="cpu", store=folder / "store") as ask,
    ):

        def judge(kernel: Path) -> tuple[Theirs, Ours]:
            theirs = theirs_of(given, planted.problem, task, kernel.read_text())
            return theirs, ours_of(ask(given.suite.candidate(task, kernel), False))

        yield judge


def judged(
    planted: Planted | PlantedProgram,
    folder: Path,
    chosen: Sequence[tuple[str, Path]],
    known: set[tuple[str, str, str]],
) -> Iterator[dict[str, Any]]:
    """Yield a row for each kernel that has none."""
    left = [
        (kind, file)
        for kind, file in chosen
        if (planted.suite.name, planted.operator, file.stem) not in known
    ]
    if not left:
        return
    with both_verdicts(planted, folder) as judge:
        for kind, file in left:
            begun = time.monotonic()
            row = row_of(planted, kind, file.stem, *judge(planted.written(file, folder)))
            yield row | {"seconds": round(time.monotonic() - begun, 2), "load": round(os.getloadavg()[0], 1)}


def row_of(
    planted: Planted | PlantedProgram, kind: str, name: str, theirs: Theirs, ours: Ours
) -> dict[str, Any]:
    """Return both verdicts on a kernel, and whether it passes by ours."""
    passes = ours.verdict == "accepted" and (name not in _RIGHT or ours.decision == "improved")
    if kind == "honest" and isinstance(planted, PlantedProgram) and not planted.form.decides:
        passes = ours.verdict != "rejected"
    return {
        "suite": planted.suite.name, "operator": planted.operator, "kind": kind, "kernel": name,
        "theirs": theirs.status, "their_speedup": round(theirs.speedup or 0.0, 2), "flags": list(theirs.flags),
        "ours": str(ours.verdict), "decision": str(ours.decision), "passes": passes,
        "failed": list(ours.failed), "reason": ours.reason[:200], "message": theirs.message[-200:],
    }  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table: of each benchmark's kernels, how many pass by its rules and by ours."""
    yield (
        "| benchmark | cheats | correct by its rules | faster too | refused by ours | accepted by ours "
        "| honest | correct | accepted |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for suite in dict.fromkeys(r["suite"] for r in rows):
        cheats, honest = ([r for r in rows if (r["suite"], r["kind"]) == (suite, kind)] for kind in KINDS)
        right = [r for r in cheats if r["theirs"] == "correct"]
        faster = sum(r["their_speedup"] > 1 for r in right)
        refused, passing = sum(r["ours"] == "rejected" for r in cheats), sum(r["passes"] for r in cheats)
        yield (
            f"| `{suite}` | {len(cheats)} | {len(right)} | {faster} | {refused} | {passing} | {len(honest)} "
            f"| {sum(r['theirs'] == 'correct' for r in honest)} | {sum(r['passes'] for r in honest)} |"
        )


def mistakes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows about which our verdict is wrong."""
    return [r for r in rows if r["passes"] is (r["kind"] == "cheats")]


def main(argv: Sequence[str] | None = None) -> int:
    """Judge every kernel by both rules, and print a row each and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--suite", action="append", choices=list(_SUITES))
    parser.add_argument("--operator", action="append", choices=[*OPERATORS, OPERATOR])
    parser.add_argument("--only", default="")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--sample", type=int, help="so many kernels for each benchmark and operator")
    parser.add_argument("--seed", type=int, default=0, help="what draws the sample")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, nargs="+", help="files of rows; the last of each kernel counts")
    asked = parser.parse_args(argv)
    rows = kept_in(asked.table or ([asked.out] if asked.out and asked.out.is_file() else []))
    known = {(r["suite"], r["operator"], r["kernel"]) for r in rows}
    for operator in () if asked.table else asked.operator or (*OPERATORS, OPERATOR):
        for suite in (name for name in asked.suite or _SUITES if operator in _SUITES[name]):
            with tempfile.TemporaryDirectory() as folder:
                planted = planted_in(suite, operator, Path(folder, "checkout"))
                drawn = sampled(planted, asked.only, asked.sample, asked.seed)
                chosen = [(kind, file) for kind, file in drawn if kind in (asked.kind or KINDS)]
                for row in judged(planted, Path(folder), chosen, known):
                    rows.append(row)
                    print(told(row), flush=True)
                    if asked.out:
                        with asked.out.open("a") as out:
                            out.write(json.dumps(row) + "\n")
    print("\n".join(table(rows)))
    return int(bool(mistakes(rows)))


def kept_in(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the rows of files that are about kernels, the last of each."""
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [*{(r["suite"], r["operator"], r["kernel"]): r for r in found if "operator" in r}.values()]


def told(row: dict[str, Any]) -> str:
    """Format a row."""
    return (
        f"| {row['suite']} | {row['operator']} | {row['kernel']} | {row['theirs']} {row['their_speedup']:.2f}x "
        f"| {', '.join(row['flags']) or '-'} | {row['ours']}, {row['decision']} "
        f"| {', '.join(row['failed']) or row['reason']} |"
    )


if __name__ == "__main__":
    sys.exit(main())
