"""A model that is wrong with its kernels → the layer where that begins.

The model becomes a task whose results are those of its layers, in the order in which they run, and the candidate is
written again with the same results. The judge holds each against float64, allowing for the native model's own error
there, and names the first that is off.

Covers: kernels of regions, at every layer's end that no kernel hides; one program for the whole model, written
again by the same schedule with further results.
Does not cover: faults that only the model's own weights show, for they are drawn anew; those of a program that
vanish where layers' results are stored.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..api.judge import judging
from ..compiler import schedules
from ..errors import InputError, KernelwrightError
from ..records import Candidate, CheckStatus, Task
from ..tasks import Problem
from ..tasks.forms import kernelbench
from ._assemble import Accepted, assemble
from ._plan import Planned
from ._task import graph_text
from ._timing import Timed
from .pieces import Capture, Unprintable

_MINUTES = 1.0
"""Time for the judge to say which layer is off."""
_MOST_LAYERS = 48
"""Layers that are compared; of more, every second or third one, and so on."""
_FIRST_WRONG = re.compile(r"\boutput (\d+)\b")


@dataclass(frozen=True)
class Layer:
    """A layer's end."""

    label: str
    """What it is called: the innermost module that ends there."""
    node: str
    """The node of its result."""


def layers_of(capture: Capture, timed: Timed, kernels: Sequence[Accepted] = ()) -> list[Layer]:
    """Return the ends of layers in the order in which they run, those within a kernel left out; the results come last.

    Args:
        capture: The model's graph.
        timed: Dtypes of its values.
        kernels: What stands in place of regions; their results are ends, too.
    """
    hidden, kernel_ends = set[str](), dict[str, str]()
    for kernel in kernels:
        for unit, text in zip(kernel.region.units, kernel.region.texts, strict=True):
            hidden |= {n.name for n in capture.nodes[unit.start : unit.stop]} - set(text.outputs)
            kernel_ends |= dict.fromkeys(text.outputs, unit.label)
    last: dict[str, str] = {}
    for node in capture.nodes:
        fact = timed.facts.get(node.name)
        if fact is not None and fact.dtype.is_floating_point:
            last |= dict.fromkeys(capture.paths[node.name], node.name)
    ends = {name: path for path, name in sorted(last.items(), key=lambda pair: len(pair[0]))}
    shown = {name: path for name, path in ends.items() if name not in hidden and name not in capture.folded}
    for name, label in kernel_ends.items():
        inside = shown.get(name) or next(reversed(capture.paths[name]), label)
        shown[name] = inside if inside == label else f"{inside} ({label})"
    found = sorted(shown.items(), key=lambda pair: capture.place[pair[0]])
    step = -(-len(found) // _MOST_LAYERS)
    layers = [Layer(label, name) for name, label in found[step - 1 :: step]] if found else []
    known = {layer.node for layer in layers}
    return [*layers, *(Layer("the result", name) for name in capture.outputs if name not in known)]


def wrong_layer(
    plan: Planned, candidate: Candidate | None, kernels: Sequence[Accepted], store: Path | str | None
) -> str:
    """Say in which layer a wrong model first goes wrong; empty where that cannot be found.

    Args:
        plan: The model.
        candidate: The program for the whole model that was rejected; none where kernels of regions were.
        kernels: The kernels of regions that were rejected together.
        store: Folder of the run store.
    """
    capture = plan.captured.whole
    if capture is None:
        return ""
    timed = plan.timed[capture.name]
    try:
        layers = layers_of(capture, timed, kernels)
        task, names = _task(plan, replace(capture, outputs=tuple(one.node for one in layers)), timed)
        if candidate is None:
            state = [spec.name for spec in task.workloads[0].state]
            changed = replace(capture, outputs=tuple(one.node for one in layers))
            again = assemble(changed, timed, kernels, state, names)
        else:
            again = _written_again(task, candidate)
        with judging(task, device=plan.place, baselines=("eager",), store=store, minutes=_MINUTES) as ask:
            findings = ask(again, True).findings
    except (KernelwrightError, Unprintable):
        return ""
    wrong = [f.message for f in findings if f.check == "correct" and f.status is CheckStatus.FAIL]
    place = _FIRST_WRONG.search(wrong[0]) if wrong else None
    return layers[int(place[1])].label if place else ""


def told(reason: str, find: Callable[[], str]) -> str:
    """Add to the reason of a rejection the layer where it begins, if the answers are wrong and one is found.

    Example:
        >>> told("correct: off by 1", lambda: "layers.1.norm"), told("too slow", lambda: "layers.1.norm")
        ('correct: off by 1; it is wrong from layers.1.norm on', 'too slow')
    """
    layer = find() if "correct" in reason else ""
    return f"{reason}; it is wrong from {layer} on" if layer else reason


def _task(plan: Planned, capture: Capture, timed: Timed) -> tuple[Task, dict[str, str]]:
    path = Path(f"{plan.plan.model}_layers.py")
    task = kernelbench.load(path, graph_text(capture, timed), max_elements=None, contract=None)
    return plan.loaded.judged(task), {node: f"w{i}" for i, node in enumerate(capture.weights)}


def _written_again(task: Task, candidate: Candidate) -> Candidate:
    """Return the program of the same schedule and configuration for another task."""
    for schedule in schedules(Problem(task), (candidate.language,)):
        if schedule.name == candidate.template:
            default = schedule.default()
            return schedule.render({name: candidate.parameters.get(name, v) for name, v in default.items()})
    raise InputError(f"{candidate.template!r} is no schedule of the layers' results")
