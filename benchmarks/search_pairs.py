"""How many candidates a run evaluates, and when its first kernel is correct: this checkout beside an earlier one.

    python -m benchmarks.search_pairs KERNELBENCH --before CHECKOUT --out rows.jsonl [--each 4] [--minutes 2] [--seed 1]
    python -m benchmarks.search_pairs --table rows.jsonl

KERNELBENCH is a checkout of that suite, and `--before` one of ours, of which only `src` is used. Problems are drawn
with a seed, `--each` of every level; one that does not load within `--max-elements` makes room for the next. The two
legs of a pair follow each other in random order, each with a store and a cache of its own, so that neither finds what
the other has built; a small task warms the caches first. A row is a run as `benchmarks.search_time` has it, with the
processor seconds of all of its processes. Rows that the file holds are not made again.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from kernelwright.store import Store

from .search_time import row_of

Row = dict[str, Any]
HERE = Path(__file__).parents[1]
LEGS = ("before", "now")
LEVELS = (1, 2, 3)
SMALL = HERE / "examples" / "swiglu.py"


def run(source: Path, home: Path, target: Path, words: Sequence[str]) -> Row | None:
    """Optimise a target with the package below `source`, in a new store; None if the run did not end by itself."""
    with tempfile.TemporaryDirectory() as store:
        env = os.environ | {"PYTHONPATH": str(source), "XDG_CACHE_HOME": str(home)}
        begun_s = _spent_s()
        subprocess.run(
            [sys.executable, "-m", "kernelwright", "optimize", str(target), "--store", store, *words],
            env=env, cwd=store, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        cpu_s = _spent_s() - begun_s
        with Store(store) as kept:
            rows = [row for one in kept.runs() if (row := row_of(kept, one)) is not None]
    return rows[0] | {"cpu_s": round(cpu_s, 1)} if rows else None


def _spent_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pairs(given: argparse.Namespace, known: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows of pairs that are not known yet."""
    sources = {"before": given.before / "src", "now": HERE / "src"}
    words = ["--max-elements", given.max_elements, "--minutes", str(given.minutes), "--proposer", "schedule"]
    with tempfile.TemporaryDirectory() as homes:
        warm = False
        for level in LEVELS:
            files = sorted((given.suite / "KernelBench" / f"level{level}").glob("*.py"))
            drawn = random.Random(f"{given.seed} {level}")
            drawn.shuffle(files)
            done = {r["problem"] for r in known if r["level"] == level}
            left = given.each - len(done)
            for path in (p for p in files if p.stem not in done):
                if left <= 0:
                    break
                if not warm:
                    for leg in LEGS:
                        run(sources[leg], Path(homes) / leg, SMALL, ["--evaluations", "1", "--minutes", "2"])
                    warm = True
                found = {
                    leg: run(sources[leg], Path(homes) / leg, path, words) for leg in drawn.sample(LEGS, 2)
                }
                if all(row is not None and row["evaluations"] for row in found.values()):
                    left -= 1
                    for leg, row in found.items():
                        assert row is not None, "both ended"
                        mine = {k: v for k, v in row.items() if k not in {"task", "run"}}
                        yield {
                            "level": level,
                            "problem": path.stem,
                            "leg": leg,
                            "minutes": given.minutes,
                        } | mine


def table(rows: Sequence[Row]) -> str:
    """Return medians by level and leg, and the ratio of what each pair evaluated."""
    lines = ["level  pairs  evaluations before, now, ratio   first correct kernel, s   CPU s an evaluation"]
    for level in (*LEVELS, None):
        mine = [r for r in rows if level in {None, r["level"]}]
        legs = [{r["problem"]: r for r in mine if r["leg"] == leg} for leg in LEGS]
        names = [name for name in legs[0] if name in legs[1]]
        if not names:
            continue
        count, first, cpu = (
            [median(values(leg[name]) for name in names) for leg in legs]
            for values in (_evaluations, _first_s, _each_s)
        )
        ratio = median(_evaluations(legs[1][n]) / _evaluations(legs[0][n]) for n in names)
        lines.append(
            f"{level or 'all':>5}  {len(names):5}  {count[0]:9.1f} {count[1]:6.1f} {ratio:6.2f}"
            f"            {first[0]:6.1f} {first[1]:6.1f}           {cpu[0]:6.2f} {cpu[1]:6.2f}"
        )
    return "\n".join(lines)


def _evaluations(row: Row) -> float:
    return float(row["evaluations"])


def _first_s(row: Row) -> float:
    return float("inf") if row["first_s"] is None else float(row["first_s"])


def _each_s(row: Row) -> float:
    return float(row["cpu_s"]) / _evaluations(row)


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
    parser.add_argument("--each", type=int, default=4, help="problems of every level")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--max-elements", default="4e6")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
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
