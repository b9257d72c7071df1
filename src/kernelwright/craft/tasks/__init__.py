"""Tasks at three levels: sizes, arrays, what is computed, and a reference in float64.

`TASKS` has them by name; `_task.py` says what a task is and how its workloads are drawn.
"""

from ...errors import NotFoundError, known_names
from ._level1 import LEVEL1
from ._level2 import LEVEL2
from ._level3 import LEVEL3
from ._task import CraftTask, Workload, draw, hidden_workloads

TASKS: dict[str, CraftTask] = {task.name: task for task in (*LEVEL1, *LEVEL2, *LEVEL3)}
"""Every task by name, the easy ones first."""

__all__ = ["TASKS", "CraftTask", "Workload", "draw", "find_task", "hidden_workloads"]


def find_task(name: str) -> CraftTask:
    """Return a task by name.

    Raises:
        NotFoundError: there is none.

    Example:
        >>> find_task("softmax").level
        2
    """
    if name not in TASKS:
        raise NotFoundError(f"no craft task is called {name!r}; {known_names(name, TASKS)}")
    return TASKS[name]
