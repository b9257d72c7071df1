"""A/A: the same kernel against itself, through the whole measurement; `improved` should come out almost never.

    python -m benchmarks.aa --runs 200
    python -m benchmarks.aa --task examples/rmsnorm_residual.py --runs 20

The candidate is the reference itself, the baseline is the same reference in a process of its own. Every run is
what a would-be winner goes through: measurement until sure or out of blocks, then confirmation where it looks
faster. Target: at most 1 % improved.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.measure import Bench, decide
from kernelwright.records import CheckStatus, Decision, Finding, Split, Verdict
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task

_TASK = """
import torch
import torch.nn as nn

rows, dim = 512, 1024

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return []
"""
_ACCEPTED = (Finding(check="same-code", status=CheckStatus.PASS),)


def main() -> None:
    """Run and print one line for each outcome."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", help="a task file; a softmax of 512 rows by default")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of one measurement")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "softmax.py"
        path.write_text(_TASK)
        problem = Problem(load_task(options.task or str(path)))
        begun = time.monotonic()
        decisions = run(problem, options.runs, options.seconds)
        show(problem, decisions, time.monotonic() - begun)


def run(problem: Problem, runs: int, seconds: float) -> list[Decision]:
    """Measure the reference against itself so many times, in a fresh process each."""
    search = problem.task.split(Split.SEARCH)
    candidate = problem.baseline("eager", search[0])
    build = get_language(candidate.language).build(candidate)
    verdict = Verdict(candidate=candidate.key, findings=_ACCEPTED)
    contract = problem.task.contract
    found = []
    with (
        Pool(Settings.from_environment()) as pool,
        Bench(problem, pool, detect("cpu"), baselines=("eager",)) as bench,
    ):
        for number in range(1, runs + 1):
            first, _ = bench.measure(candidate, build, phase="measure", workloads=search, deadline_s=seconds)
            decision = decide(first, verdict, (), contract, confirmation=first)
            if decision.confirmed:
                again, _ = bench.measure(
                    candidate, build, phase="confirm", workloads=search, deadline_s=seconds
                )
                decision = decide(first, verdict, (), contract, confirmation=again)
            found.append(decision)
            improved = sum(d.status == "improved" for d in found)
            print(f"{number} of {runs}: {decision.status}; {improved} improved", file=sys.stderr, flush=True)
    return found


def show(problem: Problem, decisions: list[Decision], seconds: float) -> None:
    """Print the table."""
    print(f"A/A of {problem.task.name}: {len(decisions)} runs, {seconds / len(decisions):.1f} s each")
    for status, count in Counter(d.status.value for d in decisions).most_common():
        print(f"  {status:13} {count:4}  {count / len(decisions):6.1%}")
    medians = sorted(d.speedup.median for d in decisions if d.speedup)
    if medians:
        print(
            f"  ratio: least {medians[0]:.3f}, median {medians[len(medians) // 2]:.3f}, most {medians[-1]:.3f}"
        )
    print(f"  blocks a run: {sum(d.blocks for d in decisions) / len(decisions):.0f}")
    share = sum(d.status == "improved" for d in decisions) / len(decisions)
    print(f"  improved: {share:.1%} (target: at most 1 %)")


if __name__ == "__main__":
    main()
