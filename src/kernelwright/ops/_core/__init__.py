"""What every family stands on: an op is a schema, a reference, a kernel and a guard."""

from .arguments import cap_of, cpu_only, finite, floats, matrix, refuse, told
from .cases import Cases
from .explain import Explanation, explain, unremembered, watch
from .families import build, families, family, ops_of
from .gradient import by_reference, last, opaque, starts_with_one
from .kernel import Kernel, Parts
from .kinds import checked
from .op import Op
from .remembered import fixed, remembered
from .tuning import Tuning

__all__ = [
    "Cases",
    "Explanation",
    "Kernel",
    "Op",
    "Parts",
    "Tuning",
    "build",
    "by_reference",
    "cap_of",
    "checked",
    "cpu_only",
    "explain",
    "families",
    "family",
    "finite",
    "fixed",
    "floats",
    "last",
    "matrix",
    "opaque",
    "ops_of",
    "refuse",
    "remembered",
    "starts_with_one",
    "told",
    "unremembered",
    "watch",
]
