"""PIE: C++ programs of programming contests, and edits that make them faster; tests are texts for standard input.

Source: Shypula et al., Learning Performance-Improving Code Edits, ICLR 2024, arXiv 2302.07867; the sandbox of its
repository madaan/pie-perf.
"""

import json
from pathlib import Path

from ..errors import TaskError
from ._program_runs import Program, Trial
from ._programs import ProgramForm
from ._records import Rules, SuiteProblem

_TESTS = "merged_test_cases"
_OFF = 1e-3
_LIMIT_S = 10.0


class PIE(ProgramForm):
    """The adapter of PIE."""

    name, suffix = "pie", ".cpp"
    title = "PIE: C++ programs of programming contests to be made faster, with texts for their standard input"
    repository = "LearningOpt/pie"
    commit = "eb3d72bc4f3c9095d0f62506340bc8ca0ef27b09"
    layout = (_TESTS, "test.jsonl")
    rules = Rules(
        correctness="on every test of a program, each line of the expected output is the same, or a number within "
        "1e-3; further lines are not looked at",
        timing="cycles of a simulated processor (gem5), mean over the tests",
        score="share of programs made at least 1.1 times as fast, mean speedup, share correct",
        trials=1, tolerance=_OFF, timed=1, seed=0,
        here="wall time of processes in the place of simulated cycles; the data is not in the repository but behind "
        "the links of its README: put `test.jsonl` and the folder of merged test cases into one folder",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the programs of the test split."""
        return tuple(
            SuiteProblem(suite=self.name, name=name, group=str(record["problem_id"]), file="test.jsonl")
            for name, record in _records(data).items()
        )

    def program(self, data: Path, problem: SuiteProblem) -> Program:
        """Return the slow program and the tests that it is measured on."""
        record = _records(data)[problem.name]
        home, tests = data / _TESTS / str(record["problem_id"]), []
        for number in sorted(_numbers(home, record.get("tests"))):
            given, expected = (home / f"{kind}.{number}.txt" for kind in ("input", "output"))
            if not given.is_file() or not expected.is_file():
                raise TaskError(f"{problem.name} names test {number}, which is not in {_TESTS}")
            tests.append(Trial(given.read_text(), expected.read_text()))
        return Program(
            files={}, original={"program.cpp": str(record.get("src_code") or record.get("input"))},
            build="g++ -O3 -std=c++17 -o program program.cpp", command="program", tests=tuple(tests), limit_s=_LIMIT_S,
        )  # fmt: skip

    def same(self, output: str, expected: str) -> bool:
        """Compare line by line, as far as both go."""
        mine, right = output.strip().splitlines(), expected.strip().splitlines()
        return len(mine) >= len(right) and all(map(_same_line, mine, right))


def _records(data: Path) -> dict[str, dict[str, object]]:
    """Return the pairs of the test split, by the name of their problem and their number in it."""
    found: dict[str, dict[str, object]] = {}
    counts: dict[str, int] = {}
    for line in (data / "test.jsonl").read_text().splitlines():
        if line.strip():
            record = json.loads(line)
            known = str(record["problem_id"])
            counts[known] = counts.get(known, 0) + 1
            found[f"{known}_{counts[known]}"] = record
    return found


def _numbers(home: Path, named: object) -> list[int]:
    """Return the numbers of a problem's tests: those that are named, else all."""
    if isinstance(named, list):
        return [int(n) for n in named]
    return [int(f.name.split(".")[1]) for f in home.glob("input.*.txt")]


def _same_line(mine: str, right: str) -> bool:
    if mine == right:
        return True
    try:
        return abs(float(mine) - float(right)) < _OFF
    except ValueError:
        return False
