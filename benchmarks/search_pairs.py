"""What an evaluation costs a search, and when its first kernel is correct: this checkout and an earlier one.

    python -m benchmarks.search_pairs KERNELBENCH --before CHECKOUT --out rows.jsonl [--each 4] [--evaluations 12]
    python -m benchmarks.search_pairs --table rows.jsonl

KERNELBENCH is a checkout of that suite, and `--before` one of ours, of which only `src` is used. Problems are drawn
with a seed, `--each` of every level; one that does not load within `--max-elements` makes room for the next. Both
versions of a pair explore with the proposer `schedule` alone, one after the other in random order, each with a store
and a cache of its own, so that neither finds what the other has built; a small task warms the caches first. The
acceptance is left out. Seconds are of a clock and, since machines are busy, of processors: all processes of a version.
An evaluation's are the mean over all but the first, what the search does between them included. Rows that the file
holds are kept.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import psutil

Row = dict[str, Any]
HERE = Path(__file__).parents[1]
VERSIONS = ("before", "now")
LEVELS = (1, 2, 3)
SMALL = HERE / "examples" / "swiglu.py"


def explore(target: str, max_elements: int, budget: dict[str, float]) -> None:
    """Explore in this process and print the row; the process ends with the exploration."""
    begun = time.monotonic()
    from kernelwright import Budget, optimize

    first: tuple[float, float] | None = None
    marks: list[tuple[float, float]] = []

    def seen(event: Any) -> None:
        nonlocal first
        now = time.monotonic() - begun, processor_s()
        if event.event == "verified" and first is None:
            first = now
        if event.event == "evaluation" and not event.data["cached"]:
            marks.append(now)
        if event.event == "explored":
            print(json.dumps(row_of(first, marks)), flush=True)
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            os._exit(0)

    optimize(
        target, budget=Budget.model_validate(budget), proposers=("schedule",), max_elements=max_elements,
        on_event=seen, begun=begun,
    )  # fmt: skip


def row_of(first: tuple[float, float] | None, marks: Sequence[tuple[float, float]]) -> Row:
    """Return seconds to the first correct kernel, and of an evaluation, by a clock and of processors."""
    row: Row = {"evaluations": len(marks)}
    for i, name in enumerate(("s", "cpu_s")):
        row[f"first_{name}"] = None if first is None else round(first[i], 2)
        spent = (marks[-1][i] - marks[0][i]) / (len(marks) - 1) if len(marks) > 1 else None
        row[f"each_{name}"] = None if spent is None else round(spent, 3)
    return row


def processor_s() -> float:
    """Return the processor seconds of this process and all below it, so far."""
    spent_s, me = 0.0, psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            spent_s += times.user + times.system + times.children_user + times.children_system
    return spent_s


def run(source: Path, home: Path, target: Path, words: Sequence[str]) -> Row | None:
    """Explore with the package below `source`, in a new store; None if it came to no row."""
    with tempfile.TemporaryDirectory() as store:
        env = os.environ | {
            "PYTHONPATH": str(source), "XDG_CACHE_HOME": str(home), "KERNELWRIGHT_STORE": store
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.search_pairs", "--explore", str(target), *words],
            env=env, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
        )  # fmt: skip
    lines = done.stdout.splitlines()
    row: Row | None = json.loads(lines[-1]) if done.returncode == 0 and lines else None
    return row


def pairs(given: argparse.Namespace, known: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows of pairs that are not known yet."""
    sources = {"before": given.before / "src", "now": HERE / "src"}
    words = ["--max-elements", str(given.max_elements), "--evaluations", str(given.evaluations)]
    with tempfile.TemporaryDirectory() as homes:
        for version in VERSIONS:
            run(sources[version], Path(homes) / version, SMALL, ["--evaluations", "1"])
        for level in LEVELS:
            files = sorted((given.suite / "KernelBench" / f"level{level}").glob("*.py"))
            drawn = random.Random(f"{given.seed} {level}")
            drawn.shuffle(files)
            done = {r["problem"] for r in known if r["level"] == level}
            left = given.each - len(done)
            for path in (p for p in files if p.stem not in done):
                if left <= 0:
                    break
                order = drawn.sample(VERSIONS, 2)
                found = {
                    version: run(sources[version], Path(homes) / version, path, words) for version in order
                }
                if all(row is not None and row["each_s"] for row in found.values()):
                    left -= 1
                    for version, row in found.items():
                        assert row is not None, "both came to a row"
                        yield {"level": level, "problem": path.stem, "version": version} | row


def table(rows: Sequence[Row]) -> str:
    """Return medians by level and version, and the geometric mean of the pairs' ratios."""
    lines = [
        "level  pairs   CPU s of an evaluation: before, now, ratio   CPU s to the first kernel: before, now, ratio"
    ]
    for level in (*LEVELS, None):
        mine = [r for r in rows if level in {None, r["level"]}]
        before, now = ({r["problem"]: r for r in mine if r["version"] == version} for version in VERSIONS)
        names = [n for n in before if n in now]
        if not names:
            continue
        told = f"{level or 'all':>5}  {len(names):5}"
        for what in ("each_cpu_s", "first_cpu_s"):
            both = [(before[n][what], now[n][what]) for n in names if before[n][what] and now[n][what]]
            told += f"      {' '.join(f'{f:>9}' for f in _figures(both))}       "
        lines.append(told.rstrip())
    return "\n".join(lines)


def _figures(both: Sequence[tuple[float, float]]) -> tuple[str, str, str]:
    """Return two medians and the geometric mean of ratios; dashes where no pair has both."""
    if not both:
        return "-", "-", "-"
    ratio = geometric_mean(old / new for old, new in both)
    return f"{median(b for b, _ in both):.2f}", f"{median(n for _, n in both):.2f}", f"{ratio:.2f}"


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def main() -> None:
    """Run the pairs that are missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", type=Path, nargs="?", help="checkout of KernelBench")
    parser.add_argument("--before", type=Path, help="an earlier checkout")
    parser.add_argument("--out", type=Path, help="JSON lines file of the rows")
    parser.add_argument("--table", type=Path, help="print the table of these rows, and run nothing")
    parser.add_argument("--explore", help="run one version in this process: a target")
    parser.add_argument("--each", type=int, default=4, help="problems of every level")
    parser.add_argument("--evaluations", type=int, default=12, help="of a version, within ten minutes")
    parser.add_argument("--max-elements", type=int, default=4_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.explore:
        explore(given.explore, given.max_elements, {"evaluations": given.evaluations, "minutes": 10})
        return
    if given.table:
        print(table(_read(given.table)))
        return
    if not (given.suite and given.before and given.out):
        parser.error("expected a checkout of KernelBench, --before CHECKOUT and --out FILE")
    rows = _read(given.out)
    for row in pairs(given, rows):
        rows.append(row)
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
