"""Problem, Workload → Graph: the ATen operators of the reference and the data flow between them."""

from ._capture import Argument, Graph, Node, Ref, capture, record_function, trace

__all__ = ["Argument", "Graph", "Node", "Ref", "capture", "record_function", "trace"]
