"""The four task forms: one file per form, found by its name."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from ...records import Reference, Task, Workload

FORMS = ("kernelbench", "own", "definition", "existing")


class Live(Protocol):
    """What a form can do with its task, beyond the record. Constructed from the task."""

    def reference(self, workload: Workload) -> Reference:
        """Return the reference with the workload's constants applied."""
        ...

    def init_arguments(self, workload: Workload) -> tuple[Any, ...]:
        """Return the constructor arguments of the module's class; empty for a function."""
        ...

    def given(self, workload: Workload, seed: int) -> Sequence[Any]:
        """Make all arguments with the task's own generator, given the seed."""
        ...

    def at(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Return the forward workload at other sizes; `TaskError` if they are known to be inconsistent."""
        ...


def live(task: Task) -> Live:
    """Return the form's runtime object for the task."""
    return cast(Live, import_module(f".{task.form}", __name__).Live(task))
