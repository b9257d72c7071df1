"""Task → brief: everything a kernel writer is given about a task."""

from pydantic import JsonValue

from ..records import ScalarSpec, Split, Task, TensorSpec, Workload


def description_of(task: Task, *, verbose: bool = True) -> dict[str, JsonValue]:
    """Describe a task to the writer of a kernel, human or model.

    Covers: the reference, the search workloads, the contract, the kernel it starts from; all of it, or, if not
    `verbose`, without empty parts and without the terms of the contract that have their default
    (`calls` and `backward` are always included).
    Does not cover: hidden and confirm workloads, only their number; no seeds.

    Example:
        >>> from kernelwright.tasks import load_task
        >>> told = description_of(load_task("examples/swiglu.py"))
        >>> told["entry"], sorted(w["split"] for w in told["workloads"])[-1]
        ('swiglu.py:swiglu', 'search')
    """
    brief = _whole(task)
    if verbose:
        return brief
    terms = task.contract.model_dump(mode="json", exclude_defaults=True)
    brief["contract"] = {"calls": task.contract.calls, "backward": task.contract.backward, **terms}
    return {name: value for name, value in brief.items() if value not in ([], {}) and name != "key"}


def _whole(task: Task) -> dict[str, JsonValue]:
    reference = task.reference
    return {
        "task": task.name,
        "key": task.key,
        "entry": reference.entry,
        "style": reference.style,
        "reference": {file.path: file.text for file in reference.files},
        "start": {file.path: file.text for file in task.start},
        "contract": task.contract.model_dump(mode="json"),
        "workloads": [_workload(w) for w in task.split(Split.SEARCH)],
        "hidden_workloads": sum(w.split is not Split.SEARCH for w in task.workloads),
        "notes": list(task.notes),
    }


def _workload(workload: Workload) -> dict[str, JsonValue]:
    return {
        "name": workload.name,
        "split": workload.split.value,
        "arguments": [_spec(spec) for spec in workload.arguments],
        "state": [_spec(spec) for spec in workload.state],
        "outputs": [_spec(spec) for spec in workload.outputs],
    }


def _spec(spec: TensorSpec | ScalarSpec) -> JsonValue:
    shown: JsonValue = spec.model_dump(mode="json", exclude_defaults=True)
    return shown
