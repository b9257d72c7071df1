"""KernelBench-Hard: a folder a problem, with `reference.py`, sizes and a manifest of tolerances and forbidden calls.

Source: Infatoshi/kernelbench.com, benchmarks/hard (problems-*, src/eval/correctness.py and numeric_stress.py).
"""

from pathlib import Path
from typing import Any

from ..errors import MissingToolError, TaskError
from ..records import Task
from ._modules import copied
from ._protocol import Script
from ._records import Rules, SuiteProblem
from .kernelbenchv3 import OfModel

_HOME, _FOLDER = "benchmarks/hard", "problems-"


class KernelBenchHard(OfModel):
    """The adapter of KernelBench-Hard."""

    name, program = "kernelbench-hard", "kernelbench_hard"
    title = "KernelBench-Hard: a few kernels that are hard to write, by GPU"
    repository = "Infatoshi/kernelbench.com"
    commit = "c7d92211851a18fdba173544f703436f4032b350"
    layout = (f"{_HOME}/problems-h100", f"{_HOME}/src/eval")
    rules = Rules(
        correctness="allclose at a problem's own tolerances on 3 public seeds at each of its sizes, and at inputs of "
        "other scales; finite; weights loaded by name; no call that the problem forbids",
        timing="median of 50 calls at each size, cold L2",
        score="share of the GPU's peak, in bytes or operations, as a geometric mean over sizes",
        trials=3, tolerance=0.0, timed=50, seed=2026,
        here="one size, that of the reference file; the host's clock, no cache is flushed; inputs of other scales and "
        "properties are left out",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the folders with a reference, by GPU."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f"{f.parent.parent.name.removeprefix(_FOLDER)}/{f.parent.name}",
                group=f.parent.parent.name.removeprefix(_FOLDER), file=f.relative_to(data).as_posix(),
            )
            for f in sorted((data / _HOME).glob(f"{_FOLDER}*/*/reference.py"))
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the reference."""
        return copied(data, problem, folder)

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its comparison at the task's sizes; None if the kernel can only run on a GPU."""
        plain = super().script(task, candidate, data, problem)
        if plain is None:
            return None
        manifest = _manifest((data / problem.file).with_name("problem.yaml"))
        own = {
            "tolerances": {str(k).removeprefix("torch."): float(v) for k, v in manifest["tolerance"].items()},
            "forbidden": list(manifest.get("forbidden") or ()),
        }
        return Script(plain.rules, {**plain.given, **own}, plain.deadline_s)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: what it forbids is the problem's own, and its rules look for it."""
        del candidate
        return ()


def _manifest(file: Path) -> dict[str, Any]:
    try:
        import yaml  # type: ignore[import-untyped]  # it has no types
    except ImportError:
        raise MissingToolError(
            "problem.yaml is read with the package PyYAML; `pip install 'kernelwright[suites]'`"
        ) from None
    found = yaml.safe_load(file.read_text()) if file.is_file() else None
    if not isinstance(found, dict) or not isinstance(found.get("tolerance"), dict):
        raise TaskError(f"{file.name} of {file.parent.name} names no tolerance")
    return found
