"""NPUKernelBench: operators of three levels for Ascend NPUs; a kernel is CANN's `op_host` and `op_kernel`.

Source: Cao et al., AscendKernelGen: A Systematic Study of LLM-Based Kernel Generation for Neural Processing Units,
arXiv 2601.07160.
"""

import ast
import contextlib
import csv
import math
from collections.abc import Sequence
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, Task
from ._ascend_operator import is_operator, operator_candidate, operator_files
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._submission import Submission

_FOLDER = "tasks"
_MOST_ELEMENTS = 1 << 20
_PACKAGES = frozenset({"torch_npu", "kernel_gen_ops", "framework"})
"""What a problem imports of the benchmark and of the NPU's torch; its reference needs none of it."""
_ONE_CASE = """


def get_inputs():
    meta = torch.get_default_device().type == "meta"
    with torch.device("cpu"):  # what looks at values while it draws has to have some
        made = kw_inputs(KW_CASE)
    made = list(made) if isinstance(made, (tuple, list)) else [made]
    return [one.to("meta") if meta and isinstance(one, torch.Tensor) else one for one in made]


def get_init_inputs():
    return list(kw_init_inputs(KW_CASE))
"""


class NPUKernelBench:
    """The adapter of NPUKernelBench."""

    name = "npukernelbench"
    title = "NPUKernelBench: Ascend C operators of three levels"
    repository = "weich97/NPUKernelBench"
    commit = "6b842167995b057cdfaa6fc7dddc51e5692f4667"
    layout = (f"{_FOLDER}/level1", f"{_FOLDER}/level2", "framework")
    rules = Rules(
        correctness="absolute and relative error of at most 1e-3 on each case, or a problem's own check",
        timing="mean of a device's time over repeated calls, where the answers are right",
        score="the share of a problem's cases that pass; a mean by level",
        trials=5, tolerance=1e-3, timed=100, seed=0,
        here="no NPU: kernels are executed on the CPU and checked, never timed; of a problem's cases the largest of at "
        "most a million elements",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the operators of all levels."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f"{f.parts[-5]}/{f.parts[-3]}", group=f.parts[-5],
                file=f.relative_to(data).as_posix(),
            )
            for f in sorted((data / _FOLDER).glob("level*/*/*/validation/module.py"))
            if (f.parent / "test_cases.csv").is_file()
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the reference and what draws the inputs of one case as one file."""
        home = (data / problem.file).parent
        texts = [(home / name).read_text() for name in ("module.py", "prepare_inputs.py")]
        case = _case(home / "test_cases.csv")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{problem.name.rpartition('/')[2]}.py"
        path.write_text(f"{_reference(texts)}\n\nKW_CASE = {case!r}{_ONE_CASE}")
        return path

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find `OPERATOR/.../op_kernel/*.cpp` with `op_host` next to it, or `OPERATOR.cpp` with a kernel of ours."""
        names = {problem.name.rpartition("/")[2]: problem.name for problem in problems}
        found = {
            names[f.stem]: f for f in sorted(folder.rglob("*.cpp")) if f.stem in names and not is_operator(f)
        }
        for file in sorted(folder.rglob("op_kernel/*.cpp")):
            name = next((names[part] for part in reversed(file.parts) if part in names), None)
            if name and is_operator(file):
                found.setdefault(name, file)
        return found

    def files(self, kernel: Path) -> dict[str, Path]:
        """Return all files of an operator; another kernel has one."""
        return operator_files(kernel) if is_operator(kernel) else {kernel.name: kernel}

    def candidate(self, task: Task, file: Path) -> Path | Candidate:
        """Return an operator as a candidate that calls it through its tiling function; another file as it is."""
        return operator_candidate(file, task) if is_operator(file) else file

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return nothing: an operator for CANN has a host's half, which a kernel that was found here lacks."""
        del task, candidate
        return None

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return nothing: its rules need an NPU."""
        del task, candidate, data, problem
        return None

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it screens no kernels."""
        del candidate
        return ()


def _reference(texts: list[str]) -> str:
    """Join the texts, without what is the NPU's or the kernel's, and with its drawing of inputs under names of ours."""
    lines = []
    for text in texts:
        for node in ast.parse(text).body:
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(module.partition(".")[0] in _PACKAGES for module in modules):
                continue
            if isinstance(node, ast.ClassDef) and node.name == "ModelNew":
                continue
            if isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
                node.name = f"kw_{node.name.removeprefix('get_')}"
            lines.append(ast.unparse(node))
    return "\n\n".join(lines)


def _case(table: Path) -> dict[str, object]:
    """Return the case of the most elements within a million, or the smallest, as the benchmark reads it."""
    with table.open(newline="") as file:
        cases = [{k: _value(v) for k, v in row.items() if k} for row in csv.DictReader(file, delimiter=";")]
    if not cases:
        raise TaskError(f"{str(table)!r} lists no case")
    sizes = [_elements(case) for case in cases]
    within = [size for size in sizes if size <= _MOST_ELEMENTS]
    return cases[sizes.index(max(within) if within else min(sizes))]


def _value(text: str | None) -> object:
    """Read a cell as pandas does: numbers and truth values are that, all else stays text."""
    for kind in (int, float):
        try:
            return kind(text or "")
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text or "", text)


def _elements(case: dict[str, object]) -> int:
    """Return how many elements the shapes of a case have."""
    total = 0
    for value in case.values():
        if isinstance(value, str) and value.startswith(("[", "(")):
            with contextlib.suppress(ValueError, SyntaxError):
                total += _product(ast.literal_eval(value))
    return total


def _product(shape: object) -> int:
    """Return the product of a shape, summed over a list of shapes."""
    if not isinstance(shape, list | tuple):
        return 0
    numbers = [n for n in shape if isinstance(n, int)]
    return (math.prod(numbers) if numbers else 0) + sum(map(_product, shape))
