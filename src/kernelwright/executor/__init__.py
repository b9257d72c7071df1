"""PTX → results, findings and counters: executes what a GPU compiler made, on a CPU.

    from kernelwright.executor import Module, Uninitialised

    run = Module.load(ptx)["softmax"](grid=rows, block=128, arguments=[x, Uninitialised(y), n, stride])

See docs/executor.md for what is executed, what is checked and what is not.
"""

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
