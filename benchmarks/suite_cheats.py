"""Planted cheats and honest kernels under a benchmark's own rules and under ours.

    python -m benchmarks.suite_cheats [--out rows.jsonl] [--only NAME]

Each file of `tests/suites/cheats` and `tests/suites/honest` is a kernel in KernelBench's form for the softmax of the
made-up checkout, (32, 4096) float32. The exit code is 1 where our verdict accepts a cheat or refuses an honest kernel.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelwright.suites import Row, get_suite, judge_all, setup
from kernelwright.testing import made_up_checkout

HOME = Path(__file__).resolve().parents[1] / "tests" / "suites"
KINDS = ("cheats", "honest")
"""Folders of kernels: those that must be refused, and those that must be accepted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Judge every kernel by both rules, and print a row each and a line for each kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args(argv)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        suite, data = get_suite("kernelbench"), made_up_checkout("kernelbench", Path(folder, "checkout"))
        problem = suite.problems(data)[0]
        with setup(suite, data, store=Path(folder, "store"), device="cpu") as given:
            for kind in KINDS:
                files = sorted(f for f in (HOME / kind).glob("*.py") if asked.only in f.stem)
                rows = [
                    told(row)
                    for f in files
                    for row in judge_all(given, (problem,), {problem.name: f}, asked.out)
                ]
                theirs = sum(row.theirs.status == "correct" for row in rows)
                ours = sum(row.ours.verdict == "accepted" for row in rows)
                wrong += ours if kind == "cheats" else len(rows) - ours
                print(
                    f"{len(rows)} {kind}: {theirs} correct by the benchmark's rules, {ours} accepted by ours"
                )
    return int(wrong > 0)


def told(row: Row) -> Row:
    """Print a row."""
    print(
        f"| {Path(row.candidate).stem} | {row.theirs.status} {row.theirs.speedup or 0.0:.2f}x "
        f"| {', '.join(row.theirs.flags) or '-'} | {row.ours.verdict} "
        f"| {', '.join(row.ours.failed) or row.ours.reason} |",
        flush=True,
    )
    return row


if __name__ == "__main__":
    sys.exit(main())
