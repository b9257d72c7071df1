"""Run the tests of families on kernels that are built with AddressSanitizer and UndefinedBehaviorSanitizer.

    python -m tests.ops.sanitised [FAMILY ...]     all by default; a build takes a minute or two

Covers: whatever the tests of a family call, its wrong calls (`tests/ops/wrong`), and its cases for the judge, tails and
empty sizes among them: reads and writes outside of tensors and on the stack, overflows of whole numbers, bad shifts.
Does not cover: torch itself, what numba or Triton compile, races, leaks.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch

from kernelwright import ops
from kernelwright.api.ops import cases_of, task_of
from kernelwright.ops._core import kernel as kernels
from kernelwright.tasks import Problem

FLAGS = ("-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
HERE = Path(__file__).parent
CALLED = 200
"""Wrong calls of each function."""
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:verify_asan_link_order=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def pytest_configure() -> None:
    """Build kernels with the sanitisers: this file is a plugin of the tests that it runs."""
    kernels._FLAGS = (*kernels._FLAGS, *FLAGS)
    # Compilers have limits on memory, under which a sanitiser does not start.
    os.environ.pop("LD_PRELOAD", None)


def on_cases(family: str) -> int:
    """Call every op of a family on its cases by its kernel; return how many calls that were."""
    count = 0
    by_name = {op.name: op for op in ops.ops_of(ops.family(family))}
    for cases in cases_of(family):
        problem = Problem(task_of(family, cases))
        for workload in problem.task.workloads:
            given = problem.inputs(workload, seed=count)
            (ran, *_) = ops.watch(lambda given=given, op=by_name[cases.op]: op(*given))
            assert ran.serves == "kernel", (workload.name, ran)
            count += 1
    return count


def runtimes() -> str:
    """Return the paths of the compiler's runtimes, which must be loaded before all else."""
    names = ("libasan.so", "libubsan.so")
    asked = [
        subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip() for name in names
    ]
    return " ".join(asked)


def environment() -> dict[str, str]:
    """Return the variables of a process in which sanitised kernels can be loaded."""
    return {**os.environ, **OPTIONS, "LD_PRELOAD": runtimes(), "PYTHONHASHSEED": "0"}


def checked(family: str) -> int:
    """Run all of one family; return the exit code of the first part that failed."""
    own = [path for path in (HERE / family, HERE / f"test_{family}.py") if path.exists()]
    words = ["-m", "pytest", "-q", "-p", "tests.ops.sanitised", "-m", "not slow and not alone and not long"]
    for part in (["-m", "tests.ops.sanitised", "--within", family], [*words, *map(str, own)]):
        if code := subprocess.run([sys.executable, *part], env=environment(), check=False).returncode:
            return code
    return 0


def within(family: str) -> int:
    """Make the calls of a family that are no tests; a sanitiser ends the process at the first that is wrong."""
    from tests.ops.wrong.fuzz import fuzzed

    pytest_configure()
    torch.set_num_threads(2)
    print(f"{family}: {on_cases(family)} workloads", flush=True)
    counts, findings = fuzzed(family, CALLED, seed=1)
    print(f"{family}: {sum(counts.values())} wrong calls, {len(findings)} findings", flush=True)
    return bool(findings)


def main(words: list[str]) -> int:
    """Run what is asked for and say how each family ended."""
    if words[:1] == ["--within"]:
        return within(words[1])
    ended = {family: checked(family) for family in words or ops.families()}
    for family, code in ended.items():
        print(f"{family}: {'clean' if code == 0 else f'failed ({code})'}")
    return int(any(ended.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
