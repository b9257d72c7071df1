"""NPUKernelBench's own operators, executed and screened without an NPU: which are right, refused, or lack something.

    python -m benchmarks.npukernelbench CHECKOUT [--only Tril] [--levels 1 2] [--out rows.jsonl]

Each operator of the checkout that comes with an answer is screened on one of its problem's cases, as `kernelwright
verify --depth screen` does. A row says what came of it: `right`; `refused`, with the first check that failed; `not
built`, with the compiler's first error; `not called`, where the problem and the operator do not fit together.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.languages import get_language
from kernelwright.records import BuildStatus, CheckStatus, VerdictStatus
from kernelwright.suites import Setup, SuiteProblem, get_suite, setup
from kernelwright.tasks import Problem
from kernelwright.verify import verify

SUITE = "npukernelbench"


def tried(given: Setup, problem: SuiteProblem, kernel: Path) -> tuple[str, str]:
    """Return what came of an operator, and why."""
    suite = get_suite(SUITE)
    try:
        with given.task(problem) as task:
            candidate = suite.candidate(task, kernel)
            build = get_language("ascendc").build(candidate)
            if build.status is not BuildStatus.OK:
                lines = build.diagnostics.splitlines()
                return "not built", next((x for x in lines if " error: " in x or "undefined" in x), lines[0])
            verdict = verify(Problem(task), candidate, build, pool=given.pool, depth="screen", deadline_s=300)
    except (KernelwrightError, RuntimeError) as error:
        return "not called", str(error).splitlines()[0]
    failed = [f"{f.check}: {f.message}" for f in verdict.findings if f.status is CheckStatus.FAIL]
    doubted = [f"{f.check}: {f.message}" for f in verdict.findings if f.status is CheckStatus.UNKNOWN]
    if verdict.status is VerdictStatus.ACCEPTED:
        return "right", ""
    return ("refused" if failed else "unknown"), (failed or doubted or [verdict.status.value])[0]


def main() -> None:
    """Try the operators and print a row of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--levels", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    suite = get_suite(SUITE)
    problems = {p.name: p for p in suite.problems(options.data)}
    kernels = suite.candidates(options.data / "tasks", list(problems.values()))
    counts: Counter[str] = Counter()
    with setup(suite, options.data) as given:
        for name, kernel in kernels.items():
            level, _, operator = name.partition("/")
            wanted = operator in options.only if options.only else int(level[-1]) in options.levels
            if not wanted:
                continue
            came, why = tried(given, problems[name], kernel)
            counts[came] += 1
            row = json.dumps(
                {"operator": name, "came": came, "why": why.replace(str(options.data), "")[:300]}
            )
            print(row, flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(row + "\n")
    print(dict(counts))


if __name__ == "__main__":
    main()
