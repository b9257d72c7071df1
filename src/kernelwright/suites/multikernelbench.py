"""MultiKernelBench: KernelBench's form in fifteen categories and NPUKernelBench's levels.

Source: Wen et al., MultiKernelBench: A Multi-Platform Benchmark for Kernel Generation, arXiv 2507.17773.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..records import Candidate, Task
from ._backends import backends_in, code_in, for_backend, what_runs_it
from ._modules import ModuleForm, by_name, copied
from ._npu_reference import without_npu
from ._protocol import Script
from ._records import Rules, SuiteProblem

_FOLDER, _FORMS = "reference", ("*.txt", "*.json", "*.py")
_MOST_ELEMENTS = 1 << 20
_ONE_CASE = """

import io

__file__ = "problem.py"
kw_case = CASE


def open(*path):
    return io.StringIO(kw_case)


def get_inputs():
    try:
        return get_input_groups()[0]
    except (NotImplementedError, RuntimeError):
        if torch.get_default_device().type != "meta":
            raise
    with torch.device("cpu"):  # what looks at values while it draws has to have some
        drawn = get_input_groups()[0]
    return [one.to("meta") if isinstance(one, torch.Tensor) else one for one in drawn]
"""
"""Reads one case in the place of the file that lists them."""


class MultiKernelBench(ModuleForm):
    """The adapter of MultiKernelBench."""

    name = program = "multikernelbench"
    title = "MultiKernelBench: operators and models of fifteen categories for several platforms"
    repository = "wzzll123/MultiKernelBench"
    commit = "460a972c9be7ce18035984321d38b910e27df95f"
    layout = (f"{_FOLDER}/activation", f"{_FOLDER}/fuse", "backends")
    rules = Rules(
        correctness="allclose at 1e-4 on 5 draws after one public seed, or on a problem's own groups of inputs; "
        "booleans exactly; reference first, same process and tensors",
        timing="mean of 100 calls on one draw after 3 warm-up calls, model made anew",
        score="fast_p by category and platform",
        trials=5, tolerance=1e-4, timed=100, seed=1024,
        here="the host's clock takes the place of a device's events; of a problem's groups of inputs the largest of at "
        "most a million elements; where a reference calls an operator of an NPU, what its docstring defines is run",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the files of all categories."""
        return tuple(
            SuiteProblem.of_file(self.name, data, f)
            for f in sorted((data / _FOLDER).glob("*/*.py"))
            if not f.name.startswith("_")
        )

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the file; one that lists groups of inputs gets one of them."""
        path = copied(data, problem, folder)
        text, cases = without_npu(path.read_text(), problem.name), (data / problem.file).with_suffix(".json")
        if "def get_inputs(" not in text and cases.is_file():
            lines = [line for line in cases.read_text().splitlines() if line.strip()]
            sizes = [_elements(json.loads(line)) for line in lines]
            within = [size for size in sizes if size <= _MOST_ELEMENTS]
            chosen = lines[sizes.index(max(within) if within else min(sizes))]
            text += _ONE_CASE.replace("CASE", repr(chosen))
        path.write_text(text)
        return path

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find models' responses and files named like their problems, `output/LANGUAGE/.../run0/relu.txt`."""
        return {name: file for form in _FORMS for name, file in by_name(folder, problems, form).items()}

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Return what a file has for its backend."""
        return for_backend(code_in(file.read_text(errors="replace")), file.stem, task)

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return the benchmark's evaluation on the task's sizes; None if its backend's hardware is not here."""
        code = code_in(candidate)
        return None if self.needs(code, data) else super().script(task, code, data, problem)

    def needs(self, candidate: str, data: Path) -> str:
        """Say what a kernel's text needs besides a CPU, by the registry of backends; empty if nothing."""
        return what_runs_it(code_in(candidate), backends_in(data))

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: its detection of cheats asks for a backend's own build."""
        del candidate
        return ()


def _elements(case: Any) -> int:
    """Return how many elements the tensors of a case have, however they are nested in it."""
    if isinstance(case, dict):
        shape = case.get("shape")
        own = math.prod(shape) if isinstance(shape, list) and all(isinstance(n, int) for n in shape) else 0
        return own + sum(_elements(part) for part in case.values())
    return sum(map(_elements, case)) if isinstance(case, list) else 0
