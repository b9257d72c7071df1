"""Accepted kernel → a trace set: the folder from which `flashinfer_bench.apply` takes definition, solution and traces.

Source: FlashInfer-Bench, flashinfer_bench/data/trace_set.py (`TraceSet.from_path`) and flashinfer_bench/apply/table.py.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..config import Settings
from ..errors import TaskError
from ..records import Candidate, ScalarSpec, Split, Task, TensorSpec, Workload
from ..sandbox import Pool
from ._modules import LIMIT_S
from ._protocol import Script
from ._records import SuiteProblem, Theirs
from ._worker import their_verdict
from .flashinferbench import FlashInferBench, solution_of, trace

_ARENA_BYTES = 1 << 20


def write_apply_set(task: Task, candidate: Candidate, to: Path, *, hardware: str, at: str) -> Path:
    """Write a trace set with one solution, and a trace of the benchmark's own verdict for each size that it was run on.

    A call of `apply` finds the solution where its sizes are those of a trace that passed.

    Args:
        task: What the kernel is for, loaded from a definition.
        candidate: The kernel.
        to: Folder to write into.
        hardware: What traces say they were made on.
        at: When, in ISO form.

    Raises:
        TaskError: the task is not from a definition, or no trace of the kernel could be made.
    """
    definition = _definition(task)
    name, kind = str(definition["name"]), str(definition.get("op_type") or "unknown")
    solution = solution_of(candidate, name)
    free = {axis for axis, of in definition["axes"].items() if of.get("type") == "var"}
    with Pool(Settings.from_environment(), arena_bytes=_ARENA_BYTES) as pool:
        judged = list(_judged(task, candidate, name, free, pool))
    traces = [
        trace(name, str(solution["name"]), theirs, workload, hardware=hardware, at=at)
        for workload, theirs in judged
    ]
    if not traces:
        raise TaskError(
            f"{candidate.key} has no form that FlashInfer-Bench's rules can call here, so no trace"
        )
    files = {
        f"definitions/{kind}/{name}.json": json.dumps(definition, indent=2),
        f"solutions/kernelwright/{kind}/{name}/{solution['name']}.json": json.dumps(solution, indent=2),
        f"traces/{kind}/{name}.jsonl": "".join(json.dumps(one) + "\n" for one in traces),
    }
    for path, text in files.items():
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        (to / path).write_text(text)
    return to


def _definition(task: Task) -> dict[str, Any]:
    try:
        found = json.loads(Path(task.reference.origin).read_text())
    except (OSError, ValueError):
        found = None
    if task.form != "definition" or not isinstance(found, dict) or "name" not in found:
        raise TaskError(
            f"{task.name} is from {task.reference.origin!r}, which is no definition; expected a definition's JSON, as "
            "`kernelwright optimize definition.json` takes it"
        )
    return found


def _judged(
    task: Task, candidate: Candidate, name: str, free: set[str], pool: Pool
) -> Iterator[tuple[Mapping[str, Any], Theirs]]:
    """Yield the benchmark's own verdict at each size of the task's search and confirmation that the definition has."""
    suite = FlashInferBench()
    problem = SuiteProblem(suite=suite.name, name=name, group="", file="")
    at_sizes = {
        tuple(sorted(w.axes.items())): w
        for w in (*task.split(Split.CONFIRM), *task.split(Split.SEARCH))
        if set(w.axes) == free
    }
    for workload in at_sizes.values():
        alone = (workload.model_copy(update={"split": Split.SEARCH}),)
        at_these = task.model_copy(update={"workloads": alone})
        made = suite.submission(at_these, candidate)
        given = suite.given(at_these, made.text, problem) if made else None
        if made and given:
            script = Script("flashinfer_bench", given, LIMIT_S)
            yield _workload(workload), their_verdict(script, pool, made.kernel)


def _workload(workload: Workload) -> Mapping[str, Any]:
    """Return a workload as the benchmark writes it; its name follows from its sizes and numbers."""
    inputs = {
        spec.name: {"type": "scalar", "value": spec.value}
        if isinstance(spec, ScalarSpec)
        else {"type": "random"}
        for spec in workload.arguments
        if isinstance(spec, ScalarSpec | TensorSpec)
    }
    text = json.dumps([workload.axes, inputs], sort_keys=True)
    return {"axes": workload.axes, "inputs": inputs, "uuid": hashlib.sha256(text.encode()).hexdigest()[:32]}
