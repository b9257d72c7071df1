"""Captured, Timed → microseconds of what torch computes within one program too."""

from collections.abc import Iterable, Mapping

import torch
from torch import fx
from torch._decomp import core_aten_decompositions

from ..compiler.graph import RULES
from ._capture import Captured
from ._regions import operator_name
from ._timing import Fact, Timed

_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
"""Layers over whole sequences."""


def native_us(captured: Captured, times: Mapping[str, Timed]) -> float:
    """Return the microseconds of operators that the compiler does not write kernels for."""
    return sum(kept_us(piece.nodes, times[piece.name]) for piece in captured.pieces)


def kept_us(nodes: Iterable[fx.Node], times: Timed) -> float:
    """Return the microseconds of those among nodes of a graph."""
    return sum(times.nodes_us[node.name] for node in nodes if _stays_native(node, times.facts))


def _stays_native(node: fx.Node, facts: Mapping[str, Fact]) -> bool:
    target, name = node.target, operator_name(node)
    if not isinstance(target, torch._ops.OpOverload):
        return False
    around = (facts.get(n.name) for n in (node, *node.all_input_nodes))
    if target.namespace != "aten" or name in _RECURRENT or any(f and f.dtype.is_complex for f in around):
        return True
    return name not in RULES and not target._can_decompose() and target not in core_aten_decompositions()
