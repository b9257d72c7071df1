"""The existing form: a task of any other form, with the kernel to start from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import TaskError
from ...records import Reference, SourceFile, Task, Workload
from ._source import read_text

KERNEL_SUFFIXES = (".cpp", ".cc", ".cxx", ".cu", ".cl")
_DEFINITION = "definition.json"


def inside(folder: Path, kernel: str | None) -> tuple[Path, str | None]:
    """Find the task's file in a folder, and the kernel next to it, if any.

    Raises:
        TaskError: no task file, or several files that could be one.
    """
    if (folder / _DEFINITION).is_file():
        return folder / _DEFINITION, kernel
    tasks = sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
    if len(tasks) != 1:
        found = ", ".join(p.name for p in tasks) or "none"
        raise TaskError(f"folder {str(folder)!r} should hold definition.json or one .py task; found {found}")
    kernels = sorted(p for p in folder.iterdir() if p.suffix in KERNEL_SUFFIXES)
    if kernel is None and len(kernels) > 1:
        raise TaskError(f"folder {str(folder)!r} holds {len(kernels)} kernels; name one with --kernel")
    return tasks[0], kernel or (str(kernels[0]) if kernels else None)


def with_kernel(task: Task, path: Path) -> Task:
    """Return the task with the kernel's source as its start."""
    start = SourceFile(path=path.name, text=read_text(path, "kernel", "a kernel's source"))
    return task.model_copy(update={"form": "existing", "start": (start,)})


class Live:
    """Delegates to the form of the reference."""

    def __init__(self, task: Task) -> None:
        from . import Live as Protocol
        from . import definition, kernelbench, own

        if any(f.path == _DEFINITION for f in task.reference.files):
            self._form: Protocol = definition.Live(task)
        elif task.reference.style == "module":
            self._form = kernelbench.Live(task)
        else:
            self._form = own.Live(task)

    def reference(self, workload: Workload) -> Reference:
        """Return the reference with the workload's constants applied."""
        return self._form.reference(workload)

    def init_arguments(self, workload: Workload) -> tuple[Any, ...]:
        """Return the constructor arguments of the module's class."""
        return self._form.init_arguments(workload)

    def given(self, workload: Workload, seed: int) -> Sequence[Any]:
        """Make all arguments with the task's own generator."""
        return self._form.given(workload, seed)

    def at(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Return the workload at other sizes."""
        return self._form.at(workload, axes)
