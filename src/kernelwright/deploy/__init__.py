"""Accepted Candidates → Kernel: a small importable package that guards itself.

An exported package holds the kernels' sources, the native op as fallback, the guard between them, a
`torch.library` op with a fake implementation, the claim sheet and its own test. It needs torch, and
`apache-tvm-ffi` for C++ kernels; it does not need Kernelwright.
"""

from ._claim import JUDGED, Claim, Judged
from ._guard import Specialisation, admits, guard, opened, ranges
from ._installed import SWITCHED, Installed, changed, installed, package_of, set_installed, switch
from ._package import Form, Kernel, package

__all__ = [
    "JUDGED", "SWITCHED", "Claim", "Form", "Installed", "Judged", "Kernel", "Specialisation", "admits", "changed",
    "guard", "installed", "opened", "package", "package_of", "ranges", "set_installed", "switch",
]  # fmt: skip
