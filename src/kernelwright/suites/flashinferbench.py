"""FlashInfer-Bench: a data set of definitions, workloads, solutions and traces, a JSON record each.

Source: FlashInfer-Bench, docs/flashinfer-trace (definition, workload, solution, trace).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from ..errors import TaskError
from ..languages.cpp import header
from ..records import Candidate, ScalarSpec, Split, Task, TensorSpec
from ..tasks import load_candidate
from ..tasks._target import COPIES
from ._modules import LIMIT_S, by_name, needs_gpu
from ._protocol import Script
from ._records import Row, Rules, SuiteProblem, Theirs
from ._scaled import bytes_of, scaled
from ._submission import Submission, submission_of

_DEFINITIONS, _WORKLOADS = "definitions", "workloads"
_MOST_WORKLOADS = 4
_MADE = 16
"""Variable axes of a definition without workloads."""
_ONE_MORE = re.compile(r"(\w+) == (\w+) \+ 1")
_AT_MOST = re.compile(r"(\w+) <= (\w+)(?: \* (\w+))?")
_OTHER_RULES = ("sampling", "dsa_", "moe_fp8_block_scale")
"""What is in the kind or the name of operators that the benchmark judges by other rules than its default ones."""
_FORM = """

def run(*arguments):
    return found_kernel(arguments, {})
"""


class FlashInferBench:
    """The adapter of FlashInfer-Bench's data sets."""

    name = "flashinfer-bench"
    title = "FlashInfer-Bench: operators of served language models, with the sizes that were seen"
    repository = "flashinfer-ai/flashinfer-bench"
    commit = "40e6ca7844b514eb4b1c7edba6d6a7377df57870"
    layout: tuple[str, ...] = (_DEFINITIONS,)
    rules = Rules(
        correctness="on 3 draws of each workload no element may be off by more than 1e-2 both absolutely and "
        "relatively; shape, dtype and finite values",
        timing="mean of 50 calls after 10, on the draws that were compared, for each workload",
        score="fast_p by definition; the reference's time over the solution's",
        trials=3, tolerance=1e-2, timed=50, seed=0,
        here="the host's clock takes the place of CUPTI, no cache is flushed; at most 4 workloads, from the "
        "smallest to the largest, are loaded, and its rules run on the first; a definition without any gets one of "
        "small sizes; one that needs more memory than there is becomes another, named `_scaled_N`, with its constant "
        "axes divided by N",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the definitions, by the kind of operator."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f.stem, group=_kind(f), file=f.relative_to(data).as_posix(),
            )
            for f in sorted((data / _DEFINITIONS).rglob("*.json"))
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the definition with workloads from the smallest to the largest."""
        text = (data / problem.file).read_text()
        lines = self.workloads(data, problem) or [_made(json.loads(text))]
        count = min(_MOST_WORKLOADS, len(lines))
        chosen = [lines[round(i * (len(lines) - 1) / max(1, count - 1))] for i in range(count)]
        for line in chosen:
            for given in (line.get("inputs") or {}).values():
                if given.get("type") == "safetensors":
                    given["path"] = str((data / given["path"]).resolve())
        if not any(spec.get("path") for line in chosen for spec in (line.get("inputs") or {}).values()):
            text = _in_memory(text, chosen)
        path = folder / "definition.json"
        path.write_text(text)
        path.with_name("workload.jsonl").write_text("".join(json.dumps(line) + "\n" for line in chosen))
        return path

    def workloads(self, data: Path, problem: SuiteProblem) -> list[dict[str, Any]]:
        """Return a definition's workloads, from the smallest to the largest."""
        files = sorted((data / _WORKLOADS).rglob(f"{problem.name}.jsonl"))
        return sorted((line for file in files for line in lines_of(file)), key=size_of)

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find solutions by the definition that they name, and Python files named like definitions."""
        known, found = {p.name for p in problems}, by_name(folder, problems)
        for file in sorted(folder.rglob("*.json")):
            solution = _solution(file.read_text())
            if solution is not None and solution["definition"] in known:
                found[str(solution["definition"])] = file
        return found

    def candidate(self, task: Task, file: Path) -> Path | Candidate:
        """Return a solution as it is, and of a Python file its `run`, whatever else it defines."""
        return load_candidate(f"{file}:run", task) if file.suffix == ".py" else file

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a `run` that calls the kernel."""
        return submission_of(task, candidate, _FORM)

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its default evaluation of the first workload; None if the kernel can only run on a GPU."""
        del data
        given = self.given(task, candidate, problem)
        return Script("flashinfer_bench", given, LIMIT_S) if given else None

    def given(self, task: Task, candidate: str, problem: SuiteProblem) -> dict[str, Any] | None:
        """Return what the rules are given; None if the kernel can only run on a GPU, or is judged by others."""
        solution = _solution(candidate)
        text, entry, fills = _entry(solution) if solution is not None else (candidate, "run", False)
        workload = task.split(Split.SEARCH)[0]
        other = any(part in f"{problem.group} {problem.name}" for part in _OTHER_RULES)
        given_inputs = [
            s for s in workload.arguments if isinstance(s, TensorSpec) and s.distribution.kind == "given"
        ]
        if text is None or needs_gpu(text) or given_inputs or other:
            return None
        return {
            "reference": task.reference.files[0].text, "submission": text, "entry": entry, "fills": fills,
            "inputs": [_spec(s) for s in workload.arguments], "outputs": [_spec(s) for s in workload.outputs],
            "trials": self.rules.trials, "timed": self.rules.timed, "tolerance": self.rules.tolerance,
            "definition": problem.name,
        }  # fmt: skip

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it screens no text."""
        del candidate
        return ()


def _in_memory(text: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """Return a definition that this machine has memory for at each of its workloads: scaled down if it has to be."""
    definition, most = json.loads(text), psutil.virtual_memory().available // COPIES
    given = [{name: int(value) for name, value in line["axes"].items()} for line in lines]
    try:
        return scaled(text, lambda axes: all(bytes_of(definition, {**axes, **one}) <= most for one in given))
    except TaskError:  # what is wrong with it is told where it is loaded
        return text


def solution_of(candidate: Candidate, definition: str) -> dict[str, Any]:
    """Return a kernel as a solution's JSON.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> source = SourceFile(path="k.py", text="def run(x): return x")
        >>> solution_of(Candidate(sources=(source,), language="torch", entry="k.py:run"), "copy")["spec"]["entry_point"]
        'k.py::run'
    """
    path, _, symbol = candidate.entry.rpartition(":")
    sources = candidate.sources
    if candidate.language == "cpp" and not any(source.path == "kernelwright.h" for source in sources):
        sources = (*sources, header())
    return {
        "name": f"kernelwright_{candidate.key}", "definition": definition, "author": "kernelwright",
        "description": candidate.reason or candidate.proposer,
        "spec": {
            "language": "python" if candidate.language == "torch" else candidate.language,
            "target_hardware": ["cpu"], "entry_point": f"{path}::{symbol}", "dependencies": [],
            "destination_passing_style": candidate.style == "destination",
        },
        "sources": [{"path": s.path, "content": s.text} for s in sources],
    }  # fmt: skip


def trace_of(row: Row, workload: Mapping[str, Any], *, hardware: str, at: str) -> dict[str, Any]:
    """Return the benchmark's own verdict of a row as a trace's JSON; errors that a row lacks are NaN.

    Args:
        row: Both verdicts.
        workload: The workload that it was judged on, as its JSON has it.
        hardware: What it ran on.
        at: When, in ISO form.
    """
    return trace(row.problem, row.candidate, row.theirs, workload, hardware=hardware, at=at)


def trace(
    definition: str, solution: str, theirs: Theirs, workload: Mapping[str, Any], *, hardware: str, at: str
) -> dict[str, Any]:
    """Return a verdict by the benchmark's rules as a trace's JSON; see `trace_of`."""
    status = {
        "correct": "PASSED", "wrong": "INCORRECT_NUMERICAL", "timeout": "TIMEOUT", "error": "RUNTIME_ERROR",
    }.get(theirs.status)  # fmt: skip
    evaluation: dict[str, Any] | None = None
    if status is not None:
        evaluation = {
            "status": status,
            "environment": {"hardware": hardware, "libs": {}},
            "timestamp": at,
            "log": theirs.message,
        }
        if status in {"PASSED", "INCORRECT_NUMERICAL"}:
            evaluation["correctness"] = {
                "max_relative_error": _error(theirs.relative_error),
                "max_absolute_error": _error(theirs.absolute_error),
            }
        if status == "PASSED" and theirs.time_us and theirs.reference_us:
            evaluation["performance"] = {
                "latency_ms": theirs.time_us / 1e3, "reference_latency_ms": theirs.reference_us / 1e3,
                "speedup_factor": theirs.speedup,
            }  # fmt: skip
    return {
        "definition": definition, "workload": dict(workload), "solution": solution, "evaluation": evaluation,
    }  # fmt: skip


def _error(error: float | None) -> float | str:
    return "NaN" if error is None else error


def _kind(file: Path) -> str:
    try:
        return str(json.loads(file.read_text()).get("op_type") or "unknown")
    except (ValueError, AttributeError):
        return "unknown"


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the workloads of a file."""
    for line in file.read_text().splitlines():
        if line.strip():
            record = json.loads(line)
            yield dict(record.get("workload") or record)


def _made(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload for a definition that has none, with small variable axes, and numbers that are no tensors.

    A number with an axis' name is that axis' size.
    """
    axes = {name: _MADE for name, axis in definition["axes"].items() if axis.get("type") == "var"}
    sizes = {name: int(axis.get("value", _MADE)) for name, axis in definition["axes"].items()}
    for constraint in definition.get("constraints") or ():
        if found := _ONE_MORE.fullmatch(constraint.strip()):
            axes |= {found[1]: axes.get(found[2], _MADE) + 1} if found[1] in axes else {}
        elif (found := _AT_MOST.fullmatch(constraint.strip())) and found[2] in axes:
            least = -(-sizes.get(found[1], 0) // sizes.get(found[3] or "", 1))
            axes[found[2]] = max(axes[found[2]], least)
    inputs = {
        name: {"type": "random"}
        if spec.get("shape") is not None
        else {"type": "scalar", "value": sizes.get(name) or _number(spec)}
        for name, spec in definition["inputs"].items()
    }
    return {"uuid": "made", "axes": axes, "inputs": inputs}


def _number(spec: Mapping[str, Any]) -> float | int | bool:
    dtype = str(spec.get("dtype"))
    return True if dtype == "bool" else 1 if "int" in dtype else 0.125


def size_of(workload: Mapping[str, Any]) -> int:
    """Return the product of a workload's variable axes.

    Example:
        >>> size_of({"axes": {"batch": 4, "pages": 8}})
        32
    """
    size = 1
    for value in workload["axes"].values():
        size *= max(1, int(value))
    return size


def _solution(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    whole = isinstance(found, dict) and {"definition", "spec", "sources"} <= found.keys()
    return found if whole else None


def _entry(solution: Mapping[str, Any]) -> tuple[str | None, str, bool]:
    """Return a solution's text, symbol, and whether it fills outputs; no text if it is not one Python file."""
    path, _, symbol = str(solution["spec"].get("entry_point", "")).partition("::")
    fills = bool(solution["spec"].get("destination_passing_style", True))
    texts = {s["path"]: s["content"] for s in solution["sources"]}
    return (texts.get(path) if len(texts) == 1 and path.endswith(".py") else None), symbol, fills


def _spec(spec: TensorSpec | ScalarSpec) -> dict[str, Any]:
    if isinstance(spec, ScalarSpec):
        return {"value": spec.value}
    return {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}
