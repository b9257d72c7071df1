"""Loaded, Capture → Task: the model itself as a task, judged like any other."""

from dataclasses import dataclass
from pathlib import Path

from ..records import Task
from ..tasks.forms import kernelbench
from ._capture import Capture
from ._target import Loaded
from ._task import graph_text
from ._timing import Timed


@dataclass(frozen=True)
class WholeTask:
    """A model as a task."""

    task: Task
    """The task; its state is the model's."""
    names: dict[str, str]
    """Weight's node → its name in the task's state."""

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the state, in the order in which kernels take it."""
        return tuple(spec.name for spec in self.task.workloads[0].state)


def whole_task(loaded: Loaded, capture: Capture, timed: Timed) -> WholeTask:
    """Return the model as a task on the captured sizes.

    A model that a file makes is made by that file. One that exists in memory alone is written down as its graph, with
    weights drawn like those that it has.

    Raises:
        TaskError: the model cannot be judged, as where it draws random inputs of other sizes in each call.
    """
    path = loaded.origin.with_name(f"{loaded.name}_whole.py")
    if loaded.text is not None:
        task = kernelbench.load(path, loaded.text, max_elements=None, contract=None)
        return WholeTask(task, dict(capture.weights))
    task = kernelbench.load(Path(path.name), graph_text(capture, timed), max_elements=None, contract=None)
    return WholeTask(task, {node: f"w{i}" for i, node in enumerate(capture.weights)})
