"""Problem, Workload → Graph: the ATen operators of the reference and the data flow between them."""

from ._capture import Argument, Graph, Node, Ref, capture, record_function, trace
from ._recorded import recorded

__all__ = ["Argument", "Graph", "Node", "Ref", "capture", "record_function", "recorded", "trace"]
