"""Problem → Graph: a small closed set of nodes with float64 semantics.

A `Graph` states *what* is computed. It is read from the operations that `tasks.capture` finds, one rule per
operator (`rules/`). Views, slices, pads and windows only change how elements are indexed; norms, softmax,
attention and losses are decomposed into reductions and elementwise operations; convolutions are `Pad`, `Window`
and `Contract`. Operations without a rule become `Native` nodes that torch computes. `interpret` evaluates every
graph in float64: rewrites and printed kernels are compared with it.

    >>> from kernelwright.compiler.graph import read
    >>> from kernelwright.tasks import Problem, load_task
    >>> graph = read(Problem(load_task("examples/swiglu.py")))
    >>> graph.natives
    ()
"""

from . import rules
from ._graph import Graph
from ._interpret import NotInterpreted, interpret
from ._nodes import (
    MOST_TABLE,
    RESERVED,
    Cat,
    Constant,
    Contract,
    Expand,
    Gather,
    Input,
    Monoid,
    Native,
    Node,
    Number,
    Order,
    Pad,
    Permute,
    Point,
    Ramp,
    Random,
    Recurrent,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Segment,
    Shape,
    Slice,
    TypedLinear,
    Weight,
    Window,
    ordered,
    sources_of,
    with_sources,
)  # fmt: skip
from ._pointwise import POINTWISE
from ._read import NotSchedulable, from_captured, read
from ._reader import RULES, NotRead, Reader, rule
from ._real import Real
from ._size import Size, broadcast, fit, parts, product, same, text_of, values_of

__all__ = [
    "MOST_TABLE", "POINTWISE", "RESERVED", "RULES", "Cat", "Constant", "Contract", "Expand", "Gather", "Graph", "Input",
    "Monoid", "Native", "Node", "NotInterpreted", "NotRead", "NotSchedulable", "Number", "Order", "Pad",
    "Permute", "Point", "Ramp", "Random", "Reader", "Real", "Recurrent", "Reduce", "Reshape", "Scan", "Scatter",
    "Segment", "Shape", "Size", "Slice", "TypedLinear", "Weight", "Window", "broadcast", "fit", "from_captured",
    "interpret", "ordered", "parts", "product", "read", "rule", "rules", "same", "sources_of", "text_of", "values_of",
    "with_sources",
]  # fmt: skip
