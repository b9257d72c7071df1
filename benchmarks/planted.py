"""Planted truths: how often a known gain is accepted, and a known loss never.

    python -m benchmarks.planted                    # simulated machines
    python -m benchmarks.planted --real --runs 20   # this machine

`--real` times one kernel that does a fixed number of passes over its input against itself with fewer or more
passes, so that the true ratio is known up to the cost of a call. Targets: +5 % accepted in at least 95 %, -5 %
never, equal at most 1 %.
"""

import argparse
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.measure.planted import MACHINES, run

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.measure import Bench, decide
from kernelwright.records import (
    Candidate,
    CheckStatus,
    Contract,
    Decision,
    Finding,
    SourceFile,
    Split,
    Verdict,
)
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task

_GAINS = (1.05, 1.0, 0.95)
_PASSES = 400
_TASK = f"""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = torch.sin(x)
        for _ in range({_PASSES} - 1):
            y = torch.sin(x)
        return y


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""
_KERNEL = """
import torch


def run(x):
    y = torch.sin(x)
    for _ in range({passes} - 1):
        y = torch.sin(x)
    return y
"""


def main() -> None:
    """Print one line for each machine and truth."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", action="store_true", help="time real workers instead of simulating")
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    if options.real:
        for gain in _GAINS:
            _show("this machine", gain, real(gain, options.runs))
        return
    for name, machine in MACHINES.items():
        for gain in _GAINS:
            _show(name, gain, [run(machine, gain, seed, Contract()) for seed in range(options.runs)])


def real(gain: float, runs: int) -> list[Decision]:
    """Measure, confirm and decide so many times on a kernel whose gain is known."""
    text = _KERNEL.format(passes=round(_PASSES / gain))
    candidate = Candidate(
        sources=(SourceFile(path="sines.py", text=text),), language="torch", entry="sines.py:run"
    )
    build = get_language("torch").build(candidate)
    passed = (Finding(check="same-values", status=CheckStatus.PASS),)
    verdict = Verdict(candidate=candidate.key, findings=passed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sines.py"
        path.write_text(_TASK)
        problem = Problem(load_task(str(path)))
        search, contract = problem.task.split(Split.SEARCH), problem.task.contract
        found = []
        with (
            Pool(Settings.from_environment()) as pool,
            Bench(problem, pool, detect("cpu"), baselines=("eager",)) as bench,
        ):
            for _ in range(runs):
                first, _ = bench.measure(candidate, build, phase="measure", workloads=search)
                decision = decide(first, verdict, (), contract, confirmation=first)
                if decision.confirmed:
                    again, _ = bench.measure(candidate, build, phase="confirm", workloads=search)
                    decision = decide(first, verdict, (), contract, confirmation=again)
                found.append(decision)
    return found


def _show(where: str, gain: float, decisions: list[Decision]) -> None:
    counts = Counter(d.status.value for d in decisions)
    accepted = counts["improved"] / len(decisions)
    others = ", ".join(f"{status} {n}" for status, n in counts.most_common())
    print(f"{where:13} true ratio {gain:.2f}: improved {accepted:6.1%}   ({others})", flush=True)


if __name__ == "__main__":
    main()
