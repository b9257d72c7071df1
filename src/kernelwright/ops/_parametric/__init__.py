"""Parametric kernels, which `optimize` proposes: Graph → Templates.

A family offers them by a `template.py` with `match(graph, workload)`, which looks at the captured graph of a task and
yields templates that compute all of it. This package has what families share: the template itself, queries on graphs,
and printing of pointwise operators in C++, Triton and OpenCL.
"""

from .dialect import Dialect
from .families import forms, match_all, matchers
from .graphs import Tree, only_output, reach, slot, slots
from .printer import Printer
from .source import assemble
from .template import KernelTemplate, Rendered

__all__ = [
    "Dialect", "KernelTemplate", "Printer", "Rendered", "Tree", "assemble", "forms", "match_all", "matchers",
    "only_output", "reach", "slot", "slots",
]  # fmt: skip
