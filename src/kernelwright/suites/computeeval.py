"""ComputeEval: CUDA programs to be completed, each with a test harness that tells by its exit code.

Source: NVIDIA/compute-eval, README.md and compute_eval/data/data_model.py.
"""

import functools
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import TaskError
from ._program_runs import Program, Trial
from ._programs import ProgramForm
from ._records import Rules, SuiteProblem

_RELEASES, _LINES = "data/releases", "problems.jsonl"
NEEDS_GPU = True
"""Whether its programs can only run on a GPU."""


class ComputeEval(ProgramForm):
    """The adapter of ComputeEval's newest release."""

    name, suffix = "compute-eval", ".cu"
    title = "ComputeEval: CUDA programs and uses of CUDA libraries, with hidden test harnesses"
    repository = "NVIDIA/compute-eval"
    commit = "19ba74fd6fccabe3aeb36969b91248107b49b7a2"
    layout = (_RELEASES, "compute_eval")
    rules = Rules(
        correctness="it builds with the harness, and the harness ends with exit code 0 in time",
        timing="of problems with a benchmark command: regions or kernels as a profiler sees them",
        score="pass@k by group; the own solution's time over the program's",
        trials=1, tolerance=0.0, timed=1, seed=0,
        here="the whole process is timed, not regions of it; without a GPU a program is built and not run; problems in "
        "Python, which nothing builds, are not read",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the C++ problems of the newest release, by group."""
        release = newest(data)
        file = release.relative_to(data).as_posix()
        found = sorted(_problems(release).values(), key=lambda p: (str(p["group"]), _number(p)))
        return tuple(
            SuiteProblem(suite=self.name, name=_name(p), group=str(p["group"]), file=file)
            for p in found
            if p.get("type") == "cuda_cpp"
        )

    def program(self, data: Path, problem: SuiteProblem) -> Program:
        """Return what is built around a solution, and the benchmark's own."""
        given = _problems(data / problem.file)[problem.name]
        files = {str(f["path"]): str(f["content"]) for f in _files(given, "context_files", "test_files")}
        baseline = given.get("baseline_solution") or {}
        original = {str(f["path"]): str(f["content"]) for f in _files(baseline, "files")}
        if len(original) > 1:
            raise TaskError(f"the solution of {problem.name} has {len(original)} files; expected one")
        return Program(
            files=files, original=original, build=str(given["build_command"]), command=str(given["test_command"]),
            tests=(Trial("", None),), limit_s=float(given["timeout_seconds"]), needs_gpu=NEEDS_GPU,
        )  # fmt: skip

    def same(self, output: str, expected: str) -> bool:
        """Say nothing: the exit code tells."""
        return output == expected


def newest(data: Path) -> Path:
    """Return the newest release of a checkout.

    Raises:
        TaskError: it has none.
    """
    releases = sorted((data / _RELEASES).glob("*-problems.tar.gz"))
    if not releases:
        raise TaskError(f"{_RELEASES} has no release of problems in this checkout")
    return releases[-1]


def _problems(release: Path) -> dict[str, dict[str, Any]]:
    return _unpacked(release, release.stat().st_mtime_ns)


@functools.lru_cache(1)
def _unpacked(release: Path, changed_ns: int) -> dict[str, dict[str, Any]]:
    """Read a release's problems by name; `changed_ns` tells a file from what it was before."""
    del changed_ns
    with tarfile.open(release) as archive:
        member = archive.extractfile(_LINES)
        text = member.read().decode() if member else ""
    found = [json.loads(line) for line in text.splitlines() if line.strip()]
    return {_name(problem): problem for problem in found}


def _name(problem: Mapping[str, Any]) -> str:
    return str(problem["task_id"]).replace("/", "_")


def _number(problem: Mapping[str, Any]) -> tuple[str, int]:
    head, _, number = str(problem["task_id"]).partition("/")
    return head, int(number) if number.isdigit() else 0


def _files(given: Mapping[str, Any], *fields: str) -> list[dict[str, Any]]:
    return [file for name in fields for file in given.get(name) or ()]
