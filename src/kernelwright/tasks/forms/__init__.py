"""The four ways in: one file a form, found by its name."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from ...records import Reference, Task, Workload

FORMS = ("kernelbench", "own", "definition", "existing")


class Live(Protocol):
    """What a form can do with a task of its own, beyond what the record says. Made with the task."""

    def reference(self, workload: Workload) -> Reference:
        """Return the reference with the workload's constants applied."""
        ...

    def init_arguments(self, workload: Workload) -> tuple[Any, ...]:
        """Return what the module's class is made with; empty for a function."""
        ...

    def given(self, workload: Workload, seed: int) -> Sequence[Any]:
        """Make all arguments with the task's own generator under the seed."""
        ...

    def at(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Return the forward workload at other sizes; `TaskError` where it is seen that they do not go together."""
        ...


def live(task: Task) -> Live:
    """Return the live side of the task's form."""
    return cast(Live, import_module(f".{task.form}", __name__).Live(task))
