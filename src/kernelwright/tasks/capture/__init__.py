"""Problem, Workload → Graph: which ATen operators the reference runs, and what flows between them."""

from ._capture import Argument, Graph, Node, Ref, capture, record_function, trace

__all__ = ["Argument", "Graph", "Node", "Ref", "capture", "record_function", "trace"]
