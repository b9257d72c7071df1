"""Task → its size as one number."""

import math

from ..records import ScalarSpec, Split, Task, TensorSpec


def elements_of(task: Task) -> float:
    """Return the number of elements of a task's arguments, geometric mean over its search workloads, at least 1.

    Example:
        >>> from kernelwright.testing import planted_task
        >>> elements_of(planted_task())
        4.0
    """
    logs = [math.log(max(1, sum(map(_count, w.arguments)))) for w in task.split(Split.SEARCH)]
    return round(math.exp(sum(logs) / max(1, len(logs))), 3)


def _count(spec: TensorSpec | ScalarSpec) -> int:
    return math.prod(spec.shape) if isinstance(spec, TensorSpec) else 0
