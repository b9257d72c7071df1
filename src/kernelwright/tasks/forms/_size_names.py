"""Readable names of sizes: `x[2]` for a literal that sizes the third axis of `x`, or the name in the file."""

from collections.abc import Callable, Mapping, Sequence

from ...records import ScalarSpec, Task, TensorSpec
from ..workloads._free_sizes import Groups

Specs = Sequence[TensorSpec | ScalarSpec]
Labels = dict[str, str]
"""A label for each literal; an empty one where its size is named by another constant."""


def labels(
    groups: Groups, values: Mapping[str, int], arguments: Callable[[dict[str, int]], Specs | None]
) -> Labels:
    """Name the literals in groups of sizes after the first argument and axis that they size.

    Args:
        groups: Constants that may change; those in one group change together.
        values: The constants' values.
        arguments: What the arguments are at other values; None if the file does not run.

    Example:
        >>> def arguments(values):
        ...     return [TensorSpec(name="x", shape=(3, values["get_inputs.0"]), dtype="float32")]
        >>> labels((("get_inputs.0",),), {"get_inputs.0": 64}, arguments)
        {'get_inputs.0': 'x[1]'}
    """
    found: Labels = {}
    base = arguments(dict(values)) or ()
    for group in groups:
        literals = [name for name in group if _is_literal(name)]
        place = _place(base, arguments(dict(values) | {n: 2 * values[n] for n in group}) or ())
        if not literals or not place or place in found.values():
            continue
        found |= dict.fromkeys(literals, "")
        if len(literals) == len(group):
            found[literals[0]] = place
    return found


def relabelled(task: Task, known: Labels) -> Task:
    """Return the task with its workloads and notes under the labels."""
    workloads = tuple(w.model_copy(update={"name": _renamed(w.name, known)}) for w in task.workloads)
    if len({w.name for w in workloads}) < len(workloads):
        return task
    return task.model_copy(
        update={"workloads": workloads, "notes": tuple(_noted(n, known) for n in task.notes)}
    )


def unlabelled(names: Sequence[str], known: Labels) -> tuple[str, ...]:
    """Return the constants that these names or labels stand for."""
    constants = {label: name for name, label in known.items() if label}
    return tuple(constants.get(name, name) for name in names)


def _is_literal(name: str) -> bool:
    return name.startswith(("get_inputs.", "get_init_inputs."))


def _place(base: Specs, other: Specs) -> str:
    """Name the first axis that differs."""
    for one, two in zip(base, other, strict=False):
        if isinstance(one, TensorSpec) and isinstance(two, TensorSpec):
            for axis, (before, after) in enumerate(zip(one.shape, two.shape, strict=False)):
                if before != after:
                    return f"{one.name}[{axis}]"
    return ""


def _renamed(name: str, known: Labels) -> str:
    head, colon, rest = name.rpartition(":")
    parts = (part.partition("=") for part in rest.split(","))
    return (
        head
        + colon
        + ",".join(known.get(k, k) + equal + value for k, equal, value in parts if known.get(k, k))
    )


def _noted(note: str, known: Labels) -> str:
    word, _, rest = note.partition(" ")
    name, colon, change = rest.partition(":")
    return f"shrunk {known[name]}{colon}{change}" if word == "shrunk" and known.get(name) else note
