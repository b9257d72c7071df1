"""What benchmarks in KernelBench's form share: a file with `Model` in, a file with `ModelNew` out."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, Split, Task
from ..tasks import Problem
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._submission import MODULE_FORM, Submission, submission_of

_NEEDS_GPU = re.compile(
    r"\.cuda\(|device\s*=\s*['\"]cuda|cuda_sources|import triton|from triton|tilelang|cutlass"
)
LIMIT_S = 180.0
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
        for stem in {problem.name, problem.name.replace("/", "_"), bare}:
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


class ModuleForm:
    """What adapters of benchmarks in KernelBench's form share; a subclass names its `rules` and its `program`."""

    rules: Rules
    program: str
    """File in `suites/rules/`."""
    on_gpu = False
    """Whether that file's program can run on a GPU."""

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find files named like their problems."""
        return by_name(folder, problems)

    def candidate(self, task: Task, file: Path) -> Path | Candidate:
        """Return the file: our judge takes a `ModelNew` as it is."""
        del task
        return file

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a `ModelNew` that calls the kernel."""
        return submission_of(task, candidate, MODULE_FORM)

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return the benchmark's evaluation on the task's sizes; None if it can only run on a GPU, and that cannot."""
        del data
        gpu = needs_gpu(candidate)
        if gpu and not self.on_gpu:
            return None
        given = {
            "reference": reference_text(task), "submission": candidate, "seed": self.rules.seed,
            "trials": self.rules.trials, "timed": self.rules.timed, "tolerance": self.rules.tolerance,
            "backward": problem.backward,
        }  # fmt: skip
        return Script(self.program, given, LIMIT_S, on_gpu=self.on_gpu, needs_gpu=gpu)
