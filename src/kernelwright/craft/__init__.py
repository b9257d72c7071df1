"""Program for an instruction set that no model has seen → verdict: manual, assembler, simulator, tasks, judge.

    from kernelwright.craft import find_backend, find_task, judge

    verdict = judge(find_task("softmax"), find_backend("tessera"), text)

See docs/craft.md.
"""

from ._assembler import AssemblyError
from ._description import TESSERA, Description, generated
from .admission import Admission, admit
from .backend import Backend, Ran
from .backends import find_backend
from .judging import CraftVerdict, difference, judge
from .session import Session
from .tasks import TASKS, CraftTask, draw, find_task, hidden_workloads

__all__ = [
    "TASKS", "TESSERA", "Admission", "AssemblyError", "Backend", "CraftTask", "CraftVerdict", "Description", "Ran",
    "Session", "admit", "difference", "draw", "find_backend", "find_task", "generated", "hidden_workloads", "judge",
]  # fmt: skip
