"""Kernelwright: takes a PyTorch op, module or kernel and gives back a faster one its owner can trust."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.judge import judge, judging
    from .flow import Result, optimize, resume
    from .models import ModelResult, Plan, optimize_model, patch, plan
    from .records import Budget, Contract
    from .system.kept_memory import kept_memory
    from .tasks import load_task, task

__version__ = "0.1.0"
__all__ = [
    "Budget", "Contract", "ModelResult", "Plan", "Result", "__version__", "judge", "judging", "kept_memory",
    "load_task", "optimize", "optimize_model", "patch", "plan", "resume", "task",
]  # fmt: skip

_HOMES = {
    "optimize": ".flow", "judge": ".api.judge", "judging": ".api.judge", "resume": ".flow", "Result": ".flow",
    "task": ".tasks", "load_task": ".tasks", "kept_memory": ".system.kept_memory",
    "Budget": ".records", "Contract": ".records",
    "ModelResult": ".models", "Plan": ".models", "optimize_model": ".models", "patch": ".models", "plan": ".models",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)
