"""What benchmarks in KernelBench's form share: a file with `Model` in, a file with `ModelNew` out."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import TaskError
from ..records import Split, Task
from ..tasks import Problem
from ._protocol import Script
from ._records import Rules, SuiteProblem

_NEEDS_GPU = re.compile(
    r"\.cuda\(|device\s*=\s*['\"]cuda|cuda_sources|import triton|from triton|tilelang|cutlass"
)
_LIMIT_S = 180.0
"""Seconds that KernelBench gives one kernel (`scripts/eval_from_generations.py`)."""


def needs_gpu(text: str) -> bool:
    """Whether a kernel's text can only run on a GPU.

    Example:
        >>> needs_gpu("import triton"), needs_gpu("import torch")
        (True, False)
    """
    return bool(_NEEDS_GPU.search(text))


def by_name(folder: Path, problems: Sequence[SuiteProblem], pattern: str = "*.py") -> dict[str, Path]:
    """Find kernels named like their problems: `level1/23_Softmax.py`, `level1_23_Softmax.py` or `23_Softmax.py`.

    A bare name that several groups have is no match.
    """
    stems: dict[str, list[str]] = {}
    for problem in problems:
        bare = problem.name.rpartition("/")[2]
        for stem in (problem.name, problem.name.replace("/", "_"), bare):
            stems.setdefault(stem, []).append(problem.name)
    found = {}
    for file in sorted(folder.rglob(pattern)):
        relative = file.relative_to(folder).with_suffix("").as_posix()
        names = stems.get(relative) or stems.get(file.stem, [])
        if len(names) == 1:
            found[names[0]] = file
    return found


def copied(data: Path, problem: SuiteProblem, folder: Path) -> Path:
    """Copy the problem's file."""
    source = data / problem.file
    if not source.is_file():
        raise TaskError(f"{problem.suite} has no file {problem.file!r} in this checkout")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / source.name
    target.write_text(source.read_text())
    return target


def reference_text(task: Task) -> str:
    """Return the problem's text with the sizes of the first search workload."""
    return Problem(task).sources(task.split(Split.SEARCH)[0]).files[0].text


def module_script(rules: Rules, program: str, task: Task, candidate: str) -> Script | None:
    """Return the program for a file with `ModelNew`; None if that can only run on a GPU."""
    if needs_gpu(candidate):
        return None
    given = {
        "reference": reference_text(task), "submission": candidate, "seed": rules.seed, "trials": rules.trials,
        "timed": rules.timed, "tolerance": rules.tolerance,
    }  # fmt: skip
    return Script(program, given, _LIMIT_S)
