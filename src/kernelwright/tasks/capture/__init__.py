"""Problem, Workload → Graph: the ATen operators of the reference and the data flow between them."""

from ._capture import Argument, Graph, Node, Ref, capture, quiet, record_function, trace
from ._differentiated import trace_step
from ._packed import UNPACK, packed
from ._recorded import recorded

__all__ = [
    "UNPACK",
    "Argument",
    "Graph",
    "Node",
    "Ref",
    "capture",
    "packed",
    "quiet",
    "record_function",
    "recorded",
    "trace",
    "trace_step",
]
