"""Captured, Timed → microseconds of what torch computes within one program too."""

from collections.abc import Mapping

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
    nodes = ((times[piece.name], node) for piece in captured.pieces for node in piece.nodes)
    return sum(t.nodes_us[node.name] for t, node in nodes if _stays_native(node, t.facts))


def _stays_native(node: fx.Node, facts: Mapping[str, Fact]) -> bool:
    target, name = node.target, operator_name(node)
    if not isinstance(target, torch._ops.OpOverload):
        return False
    around = (facts.get(n.name) for n in (node, *node.all_input_nodes))
    if target.namespace != "aten" or name in _RECURRENT or any(f and f.dtype.is_complex for f in around):
        return True
    return name not in RULES and not target._can_decompose() and target not in core_aten_decompositions()
