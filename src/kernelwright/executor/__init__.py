"""PTX → results, findings and counters: executes what a GPU compiler made, on a CPU.

    from kernelwright.executor import Module, Uninitialised

    run = Module.load(ptx)["softmax"](grid=rows, block=128, arguments=[x, Uninitialised(y), n, stride])

See docs/executor.md for what is executed, what is checked and what is not.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._errors import FaultError, NotExecutedError, PtxError
    from ._im2col import Im2colMap
    from ._memory import Uninitialised
    from ._tensormap import TensorMap
    from .module import Kernel, Module, Options
    from .results import Counters, Execution, Finding, SiteCounters

__all__ = [
    "Counters", "Execution", "FaultError", "Finding", "Im2colMap", "Kernel", "Module", "NotExecutedError", "Options",
    "PtxError", "SiteCounters", "TensorMap", "Uninitialised",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("FaultError", "NotExecutedError", "PtxError"), "._errors"),
    **dict.fromkeys(("Kernel", "Module", "Options"), ".module"),
    **dict.fromkeys(("Counters", "Execution", "Finding", "SiteCounters"), ".results"),
    "Im2colMap": "._im2col", "TensorMap": "._tensormap", "Uninitialised": "._memory",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first used: what builds ahead begins before NumPy is imported."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)
