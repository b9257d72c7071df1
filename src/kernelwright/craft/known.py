"""A model that is none: it tries the programs that are known for a task, one a turn, and then stops."""

from collections.abc import Sequence

from ..llm import Message
from .backend import Backend
from .tasks import CraftTask


class KnownPrograms:
    """Answers with the known programs of a task, the baseline first.

    Example:
        >>> from kernelwright.craft import Session, find_backend, find_task
        >>> from kernelwright.craft.loop import improve
        >>> backend, task = find_backend("made-7"), find_task("relu")
        >>> run = improve(Session(task, backend), KnownPrograms(task, backend))
        >>> run.verdict.score > 1
        True
    """

    def __init__(self, task: CraftTask, backend: Backend) -> None:
        self._left = list(backend.programs(task).values())

    def __call__(self, messages: Sequence[Message]) -> str:
        """Answer with the next program."""
        del messages
        return f"```asm\n{self._left.pop(0)}```" if self._left else "DONE"
