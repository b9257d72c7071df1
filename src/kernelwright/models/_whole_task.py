"""Loaded, Captured → Task: the model itself as a task, judged like any other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..records import Task
from ..tasks.forms import kernelbench
from ._capture import Captured
from ._target import Loaded
from ._task import graph_text
from ._timing import Timed


@dataclass(frozen=True)
class WholeTask:
    """A model as a task."""

    task: Task
    """The task; its state is the model's."""
    names: dict[str, str]
    """Weight's node → its name in the task's state; empty where the model is no single graph."""
    held: dict[str, str]
    """Name in the task's state → name in the model, where they differ by more than a prefix."""

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the state, in the order in which kernels take it."""
        return tuple(spec.name for spec in self.task.workloads[0].state)

    @property
    def weights(self) -> tuple[str, ...]:
        """The model's own names of parameters and buffers, in that order."""
        return tuple(self.held.get(name, name).removeprefix("inner.") for name in self.state)


def whole_task(loaded: Loaded, captured: Captured, timed: Mapping[str, Timed]) -> WholeTask:
    """Return the model as a task on the captured sizes.

    A model that a file makes is made by that file. One that exists in memory alone is written down as its graph, with
    weights drawn like those that it has.

    Args:
        loaded: The model.
        captured: Its graphs.
        timed: Shapes and layouts of their values, by graph.

    Raises:
        TaskError: the model cannot be judged, as where it draws random inputs of other sizes in each call.
        InputError: it exists in memory alone, and its graph breaks.
    """
    capture = captured.whole
    path = loaded.origin.with_name(f"{loaded.name}_whole.py")
    if loaded.text is not None:
        task = kernelbench.load(path, loaded.text, max_elements=None, contract=None)
        return WholeTask(loaded.judged(task), dict(capture.weights) if capture else {}, {})
    if capture is None:
        raise InputError("it exists in memory alone and its graph breaks; put a function build() into a file")
    text = graph_text(capture, timed[capture.name])
    task = kernelbench.load(Path(path.name), text, max_elements=None, contract=None)
    names = {node: f"w{i}" for i, node in enumerate(capture.weights)}
    return WholeTask(
        loaded.judged(task), names, {name: capture.weights[node] for node, name in names.items()}
    )
