"""AutoKernel: a workspace in which an agent edits one kernel, and a fixed `bench.py` judges it.

Source: RightNow-AI/autokernel, bench.py, reference.py and extract.py; workspaces of its layout are read as well.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, SourceFile, Split, Task, TensorSpec
from ._modules import LIMIT_S, by_name, needs_gpu, reference_text
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._structure import PROBLEM
from ._submission import Submission, submission_of

_BENCH, _REFERENCE, _WORKSPACE, _ONE = "bench.py", "reference.py", "workspace", "kernel.py"
_CONFIGS, _TYPE, _SHAPES = "KERNEL_CONFIGS", "KERNEL_TYPE", "MODEL_SHAPES"
_TASK_SIZE, _TASK_DTYPE = "large", "float32"
_IMPORT = re.compile(r"^ +import reference\n", re.MULTILINE)
_MODEL = '''
import random

import reference
import torch
import torch.nn.functional as F

REFERENCES
CONSTANTS

class Model(torch.nn.Module):
    def forward(self, NAMES):
        return CALLED({GIVEN})


def kw_drawn(size, dtype, seed, device="cpu"):
    """Draw the arguments of a call by name, as the benchmark draws them."""
    return DRAWN(size, dtype, device, seed)


def get_inputs():
    found = kw_drawn({SIZES}, torch.DTYPE, random.randrange(1 << 30), str(torch.get_default_device()))
    return [found[name] for name in NAMED]


def get_init_inputs():
    return []
'''
_ENTRY = """from kernelwright.executor.python import launching

with launching():
    from submission import kernel_fn


def run(NAMES):
    with launching():
        return kernel_fn(GIVEN)
"""
_FORM = """
def kernel_fn(NAMES):
    return found_kernel((NAMES,), {})
"""


@dataclass(frozen=True)
class Kind:
    """An entry of `KERNEL_CONFIGS`."""

    sizes: tuple[tuple[str, dict[str, int]], ...]
    """Test sizes by name."""
    edges: tuple[tuple[str, dict[str, int]], ...]
    """Sizes that are no powers of two."""
    tolerances: Mapping[str, Mapping[str, float]]
    """Absolute and relative, by dtype."""
    dtypes: tuple[str, ...]
    draws: str
    """The function that draws arguments."""
    computes: str
    """The function that calls the reference on them."""


class AutoKernel:
    """The adapter of AutoKernel."""

    name = "autokernel"
    title = "AutoKernel: an agent's workspace of one kernel, judged by five stages of tests"
    repository = "RightNow-AI/autokernel"
    commit = "78435821cc3d5756ba6ee1785c397f6d8fa8c90d"
    layout = (_BENCH, _REFERENCE, "program.md", "kernels")
    rules = Rules(
        correctness="five stages: a smoke test; every size and dtype; inputs near zero, near the largest, of mixed "
        "scale, zeros and equal, at ten times the tolerance; three calls bit by bit; sizes that are no powers of two; "
        "each drawn after the public seed 42",
        timing="median of Triton's do_bench at the size `large`",
        score="throughput, and share of the roofline",
        trials=5, tolerance=0.0, timed=100, seed=42,
        here="the task is the size `large`, or that of the model that a workspace was extracted from, in float32 where "
        "the benchmark has it; of its sizes those with at most a million elements are tested; mean of 100 calls "
        "by the host's clock",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the types of kernel, and the kernels that were extracted into a workspace, each at its model's sizes."""
        kinds = kinds_in((data / _BENCH).read_text())
        starts = {k: f"kernels/{k}.py" for k in kinds if (data / f"kernels/{k}.py").is_file()}
        found = [
            SuiteProblem(suite=self.name, name=kind, group="kernels", file=starts.get(kind, _BENCH))
            for kind in kinds
        ]
        for file in sorted((data / _WORKSPACE).glob("kernel_*.py")):
            said = _said(file.read_text())
            if said.get(_TYPE) in kinds and _SHAPES in said:
                named = file.relative_to(data)
                found.append(
                    SuiteProblem(
                        suite=self.name, name=named.with_suffix("").as_posix(), group=_WORKSPACE,
                        file=named.as_posix(),
                    )
                )  # fmt: skip
        return tuple(found)

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the reference, called on what the benchmark draws, as a module."""
        text = (data / _BENCH).read_text()
        said = _said((data / problem.file).read_text())
        name = str(said[_TYPE]) if problem.group == _WORKSPACE else problem.name
        kind = kinds_in(text)[name]
        shapes = said.get(_SHAPES)
        known = dict(kind.sizes)
        size = shapes if problem.group == _WORKSPACE else known.get(_TASK_SIZE, kind.sizes[-1][1])
        if not isinstance(size, dict) or set(size) != set(kind.sizes[0][1]):
            raise TaskError(f"{problem.file} has no {_SHAPES} with the axes {', '.join(kind.sizes[0][1])}")
        names = _drawn_by(text, kind.draws)
        dtype = _TASK_DTYPE if _TASK_DTYPE in kind.dtypes else kind.dtypes[0]
        filled = {
            "REFERENCES": _functions(text, kind.draws, kind.computes),
            "CONSTANTS": "".join(f"{axis} = {n}\n" for axis, n in size.items()),
            "NAMES": ", ".join(names), "CALLED": kind.computes, "DRAWN": kind.draws, "DTYPE": dtype,
            "GIVEN": ", ".join(f"{n!r}: {n}" for n in names), "NAMED": repr(names),
            "SIZES": ", ".join(f"{axis!r}: {axis}" for axis in size),
        }  # fmt: skip
        module = _MODEL.replace("NAMED", repr(names))
        for mark, value in filled.items():
            module = module.replace(mark, value)
        (folder / _REFERENCE).write_text((data / _REFERENCE).read_text())
        path = folder / PROBLEM
        path.write_text(module)
        return path

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find files named like their problems, and the `kernel.py` that an agent edits, by the type that it names."""
        found = by_name(folder, problems)
        edited = folder / _ONE
        if edited.is_file():
            kind = _said(edited.read_text(errors="replace")).get(_TYPE)
            found |= {p.name: edited for p in problems if p.name == kind}
        return found

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Return a candidate that calls `kernel_fn` by the names that the benchmark calls it by.

        Raises:
            TaskError: the file does not define it.
        """
        text, names = file.read_text(errors="replace"), _names_of(task)
        if "kernel_fn" not in text:
            raise TaskError(f"{file} defines no 'kernel_fn'")
        entry = _ENTRY.replace("NAMES", ", ".join(names)).replace(
            "GIVEN", ", ".join(f"{n}={n}" for n in names)
        )
        return Candidate(
            sources=(SourceFile(path="entry.py", text=entry), SourceFile(path="submission.py", text=text)),
            language="triton" if "import triton" in text else "torch", entry="entry.py:run",
        )  # fmt: skip

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a `kernel_fn` that calls the kernel."""
        return submission_of(task, candidate, _FORM.replace("NAMES", ", ".join(_names_of(task))))

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its five stages and the time at the task's sizes; None if the kernel can only run on a GPU."""
        if needs_gpu(candidate):
            return None
        said = _said((data / problem.file).read_text())
        kinds = kinds_in((data / _BENCH).read_text())
        kind = kinds[str(said[_TYPE]) if problem.group == _WORKSPACE else problem.name]
        workload = task.split(Split.SEARCH)[0]
        given = {
            "files": [{"name": "reference", "text": (data / _REFERENCE).read_text()}],
            "reference": reference_text(task), "submission": candidate, "names": _names_of(task),
            "sizes": kind.sizes, "edges": kind.edges, "dtypes": kind.dtypes, "tolerances": kind.tolerances,
            "size": {axis: workload.axes.get(axis, n) for axis, n in _size_in(task).items()},
            "dtype": next(a.dtype for a in workload.arguments if isinstance(a, TensorSpec)),
            "timed": self.rules.timed, "seed": self.rules.seed,
        }  # fmt: skip
        return Script("autokernel", given, LIMIT_S)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: that only one file is edited is a sentence of its prompt."""
        del candidate
        return ()


def kinds_in(bench: str) -> dict[str, Kind]:
    """Return the entries of `KERNEL_CONFIGS` by type.

    Raises:
        TaskError: there are none.
    """
    for node in ast.parse(bench).body:
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(keys=keys, values=values))
                | ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys, values=values))
            ) if name == _CONFIGS:
                pairs = zip(keys, values, strict=True)
                return {ast.literal_eval(k): _kind(v) for k, v in pairs if k and isinstance(v, ast.Dict)}
    raise TaskError(f"{_BENCH} has no {_CONFIGS} that is written out")


def _kind(node: ast.Dict) -> Kind:
    parts = {ast.literal_eval(k): v for k, v in zip(node.keys, node.values, strict=True) if k}
    tolerances = parts["tolerances"]
    assert isinstance(tolerances, ast.Dict)
    return Kind(
        sizes=tuple(ast.literal_eval(parts["test_sizes"])),
        edges=tuple(ast.literal_eval(parts["edge_sizes"])) if "edge_sizes" in parts else (),
        tolerances={
            _last(k): ast.literal_eval(v)
            for k, v in zip(tolerances.keys, tolerances.values, strict=True)
            if k
        },
        dtypes=tuple(map(_last, getattr(parts["test_dtypes"], "elts", ()))),
        draws=ast.unparse(parts["input_generator"]), computes=ast.unparse(parts["reference_fn"]),
    )  # fmt: skip


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _functions(text: str, *names: str) -> str:
    """Return functions of a file, which import its reference once for all of them."""
    found = {n.name: ast.unparse(n) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    if missing := [name for name in names if name not in found]:
        raise TaskError(f"{_BENCH} defines no {missing[0]!r}")
    return "\n\n\n".join(_IMPORT.sub("", found[name]) for name in names)


def _drawn_by(text: str, name: str) -> list[str]:
    """Return the names of the arguments that a function draws, in order: the keys of what it returns."""
    for node in ast.walk(ast.parse(_functions(text, name))):
        match node:
            case ast.Return(value=ast.Dict(keys=keys)):
                return [ast.literal_eval(key) for key in keys if key]
    raise TaskError(f"{name} of {_BENCH} returns no dictionary that is written out")


def _said(text: str) -> dict[str, object]:
    """Return what a kernel's file says of itself in literals."""
    found = dict[str, object]()
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return found
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if name in {_TYPE, _SHAPES}:
                found[name] = ast.literal_eval(node.value)
    return found


def _names_of(task: Task) -> list[str]:
    for node in ast.walk(ast.parse(reference_text(task))):
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            return [a.arg for a in node.args.args[1:]]
    raise TaskError("the problem has no `forward`")


def _size_in(task: Task) -> dict[str, int]:
    """Return the sizes that a problem's file declares."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(reference_text(task)).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
