"""Convolutions with a fused activation, computed by the library while tiles are in registers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...tasks.capture import Node as Captured
from ..graph import Graph, Node, Point, sources_of
from ._state import State

_How = tuple[str, tuple[float, ...], str]
"""OneDNN's name of an activation, its numbers, its algorithm."""


@dataclass(frozen=True)
class Activated:
    """Let the library (oneDNN) convolve and apply the activation: its result is written once, and not read again.

    Otherwise the activation reads and writes the whole result again. Legal in float32, for
    convolutions of images that are not transposed, read by nothing but sigmoid, tanh, silu, gelu or leaky relu; not
    relu, for which oneDNN returns zero instead of NaN. If torch has no oneDNN the candidate declines.
    """

    name = "activated"

    def sites(self, state: State) -> Iterator[str]:
        """Yield captured convolutions followed by such an activation, and `all` if there are several."""
        found = [op.name for op in state.graph.operations if _made(state, op) is not None]
        yield from found
        if len(found) > 1:
            yield "all"

    def apply(self, state: State, site: str) -> State:
        """Make convolution and activation one operation of the library."""
        names = [s for s in self.sites(state) if s != "all"] if site == "all" else [site]
        graph, native = state.graph, state.decisions.native
        for op in [op for op in graph.operations if op.name in names]:
            made = _made(state, op)
            assert made is not None
            new, node = made
            graph = replace(
                graph, operations=(*graph.operations, new), values={**graph.values, new.name: node}
            )
            native |= {new.name}
        return replace(state, graph=graph, decisions=replace(state.decisions, native=native))


def _made(state: State, op: Captured) -> tuple[Captured, Node] | None:
    """Return convolution and activation as one operation, and its value; None if that is not legal."""
    graph = state.graph
    value, native = graph.values.get(op.name), state.decisions.native
    if (
        not op.op.startswith("aten.convolution.")
        or op.kwargs
        or value not in graph.users
        or op.name in native
    ):
        return None
    x, weights, bias, stride, padding, dilation, transposed, _, groups = op.args
    if transposed or len(value.shape) != 4 or value in graph.roots or value.dtype != "float32":
        return None
    name, found = f"{op.name}_activated", _activation(graph, value)
    tiled = any(n.name in state.decisions.tilings for n in (value, *sources_of(value)))
    if found is None or name in native or tiled:
        return None
    node, how = found
    new = replace(
        op, name=name, op="mkldnn._convolution_pointwise.default",
        args=(x, weights, bias, padding, stride, dilation, groups, *how),
    )  # fmt: skip
    return new, node


def _activation(graph: Graph, value: Node) -> tuple[Node, _How] | None:
    """Return the activation that is the only reader of a value, and oneDNN's arguments for it."""
    first, *more = graph.users[value]
    if not isinstance(first, Point) or first.args[0] is not value or first.dtype != "float32":
        return None
    if first.op == "sigmoid" and more:
        silu = more[0] if more == list(graph.users[first]) else None
        fits = isinstance(silu, Point) and silu.op == "mul" and {*silu.args} == {value, first}
        return (silu, ("swish", (), "")) if silu and fits else None
    slope = first.args[1] if len(first.args) == 2 else 0.01
    match first.op:
        case _ if more:
            return None
        case "sigmoid" | "tanh":
            return first, (first.op, (), "")
        case "gelu":
            return first, ("gelu", (), str(dict(first.options).get("approximate", "none")))
        case "leaky_relu" if isinstance(slope, int | float):
            return first, ("leaky_relu", (float(slope),), "")
        case _:
            return None
