"""What every family stands on: an op is a schema, a reference, a kernel and a guard."""

from .arguments import cpu_only, floats, matrix, refuse, told
from .cases import Cases
from .explain import Explanation, explain
from .families import build, families, family, ops_of
from .gradient import by_reference
from .kernel import Kernel
from .kinds import checked
from .op import Op

__all__ = [
    "Cases",
    "Explanation",
    "Kernel",
    "Op",
    "build",
    "by_reference",
    "checked",
    "cpu_only",
    "explain",
    "families",
    "family",
    "floats",
    "matrix",
    "ops_of",
    "refuse",
    "told",
]
