"""Memory layout of intermediates: axes in the order of the reader, not of the graph."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Node, Permute
from ..tile import Expression, Kernel, Load, Loop, Program, expressions, number, paths, stride, walk
from ._state import State


@dataclass(frozen=True)
class Turn:
    """Store an intermediate with the axis last that its readers' lanes go along, instead of reading it across.

    A strided load fetches a cache line per lane; a contiguous one gets sixteen elements from one line. The
    producer writes in the new order directly, without a separate pass: free for a product, whose tiles store either
    way; no gain if the producer's own inputs have the old order, which the estimate accounts for. Legal for values in
    memory between generated kernels, where all lanes go along the same other axis.
    """

    name = "turn"

    def sites(self, state: State) -> Iterator[str]:
        """Yield intermediates that are read across."""
        if state.program is not None:
            yield from _read_across(state)

    def apply(self, state: State, site: str) -> State:
        """Store the value with its axes in the other order; its users see the old one."""
        last = _read_across(state)[site]
        node = next(n for n in state.graph.nodes if n.name == site)
        return stored_turned(state, node, last)


def stored_turned(state: State, node: Node, last: int) -> State:
    """Return the state in which a value is stored with one dimension behind the others."""
    order = (*(d for d in range(len(node.shape)) if d != last), last)
    turned = Permute(
        name=f"{node.name}_turned", shape=tuple(node.shape[d] for d in order), dtype=node.dtype, source=node,
        order=order,
    )  # fmt: skip
    inverse = tuple(order.index(d) for d in range(len(order)))
    back = Permute(name=f"{node.name}_back", shape=node.shape, dtype=node.dtype, source=turned, order=inverse)
    made = state.decisions
    decisions = replace(
        made, before=made.before - {node.name} | {turned.name}, store=made.store - {node.name}
    )
    return replace(state, graph=state.graph.rewritten({node: back}), decisions=decisions)


def _read_across(state: State) -> dict[str, int]:
    """Return the intermediates that all lanes read across, each with the dimension that they go along."""
    program = state.program
    assert program is not None
    own, ahead = {n.name for n in state.graph.nodes}, state.decisions.ahead | state.decisions.before
    native = {name for step in program.natives for name in (*step.reads, step.writes)}
    named = {name: node.name for node, name in program.names.items()}
    found: dict[str, int] = {}
    for b in program.buffers:
        name = named.get(b.name, "")
        if b.role == "temporary" and b.name not in native and name in own - ahead:
            walked = set(_walked(program, b.name))
            if len(walked) == 1 and (dim := walked.pop()) not in (-1, len(b.shape) - 1):
                found[name] = dim
    return found


def _walked(program: Program, buffer: str) -> Iterator[int]:
    """Yield the dimension along which each load goes from lane to lane; -1 if there is none, or several."""
    for kernel in (step for step in program.steps if isinstance(step, Kernel)):
        for path in paths(kernel.body):
            lanes = next((loop.axis for loop in path if loop.vector), "")
            for s in (s for s in path[-1].body if not isinstance(s, Loop)):
                for e in (e for x in expressions(s) for e in walk(x)):
                    if isinstance(e, Load) and e.buffer == buffer and lanes:
                        yield from _dimension(e.index, lanes)


def _dimension(index: tuple[Expression, ...], axis: str) -> Iterator[int]:
    """Yield the dimension of an index that follows an axis, -1 if it is not one to one; nothing if none does."""
    steps = {d: step for d, at in enumerate(index) if (step := stride(at, axis)) != number(0)}
    if steps:
        yield next(iter(steps)) if list(steps.values()) == [number(1)] else -1
