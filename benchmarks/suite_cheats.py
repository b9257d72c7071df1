"""Planted cheats under a benchmark's own rules and under ours.

    python -m benchmarks.suite_cheats [--out rows.jsonl] [--only NAME]

Each file of `tests/suites/cheats` is a kernel in KernelBench's form for the softmax of the made-up checkout, (32, 4096)
float32. The exit code is 1 where our verdict accepts one.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelwright.suites import get_suite, judge_all, setup
from kernelwright.testing import made_up_checkout

CHEATS = Path(__file__).resolve().parents[1] / "tests" / "suites" / "cheats"


def main(argv: Sequence[str] | None = None) -> int:
    """Judge every cheat by both rules and print a row each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args(argv)
    accepted = won = count = 0
    with tempfile.TemporaryDirectory() as folder:
        suite, data = get_suite("kernelbench"), made_up_checkout("kernelbench", Path(folder, "checkout"))
        problem = suite.problems(data)[0]
        with setup(suite, data, store=Path(folder, "store"), device="cpu") as given:
            for cheat in sorted(f for f in CHEATS.glob("*.py") if asked.only in f.stem):
                (row,) = judge_all(given, (problem,), {problem.name: cheat}, asked.out)
                gain = row.theirs.speedup or 0.0
                count += 1
                won += row.theirs.status == "correct"
                accepted += row.ours.verdict == "accepted"
                print(
                    f"| {cheat.stem} | {row.theirs.status} {gain:.2f}x | {', '.join(row.theirs.flags) or '-'} "
                    f"| {row.ours.verdict} | {', '.join(row.ours.failed) or row.ours.reason} |",
                    flush=True,
                )
    print(f"{count} cheats: {won} correct by the benchmark's rules, {accepted} accepted by ours")
    return int(accepted > 0)


if __name__ == "__main__":
    sys.exit(main())
