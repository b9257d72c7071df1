"""Nodes → Graph: copies of the same and dead code left out, short names."""

from typing import Literal

from ...records import TensorSpec, Workload
from ._graph import Argument, Graph, Node, Ref

_COPIES_OF_SAME = (
    "aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default", "aten.view.default",
    "aten.expand.default", "aten._unsafe_view.default", "aten.permute.default", "aten._to_copy.default",
)  # fmt: skip


def tidied(
    nodes: list[Node],
    outputs: list[str],
    mutations: list[tuple[str, str]],
    workload: Workload,
    how: Literal["export", "dispatch", "trace"],
) -> Graph:
    """Drop copies of the same and dead code, and give the ops short names."""
    inputs = tuple(a.name if isinstance(a, TensorSpec) else None for a in workload.arguments)
    same: dict[str, str] = {}
    kept: dict[str, Node] = {}
    for original in nodes:
        node = _rewired(original, original.name, same)
        source = kept.get(node.args[0].name) if node.args and isinstance(node.args[0], Ref) else None
        if source is not None and _is_same(node, source):
            same[node.name] = source.name
        else:
            kept[node.name] = node
    outputs = [same.get(name, name) for name in outputs]
    mutations = [(old, same.get(new, new)) for old, new in mutations if same.get(new, new) != old]
    alive = _alive(kept, [*outputs, *(new for _, new in mutations)])
    short = _short_names(
        [kept[name] for name in kept if name in alive or kept[name].op in ("input", "state")]
    )
    final = tuple(_rewired(kept[old], new, short) for old, new in short.items())
    return Graph(
        nodes=final,
        inputs=inputs,
        state=tuple(n.name for n in final if n.op == "state"),
        outputs=tuple(short[name] for name in outputs),
        how=how,
        mutations=tuple((old, short[new]) for old, new in mutations),
    )


def _is_same(node: Node, source: Node) -> bool:
    """Whether a node only returns its first argument's values, in the same shape and order."""
    if (node.shape, node.dtype) != (source.shape, source.dtype):
        return False
    if node.op == "aten.permute.default":
        return node.args[1] == tuple(range(len(node.shape)))
    return node.op in _COPIES_OF_SAME or (node.op == "aten.clone.default" and source.op == "constant")


def _alive(nodes: dict[str, Node], roots: list[str]) -> set[str]:
    alive: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in alive:
            alive.add(name)
            waiting.extend(nodes[name].refs())
    return alive


def _short_names(nodes: list[Node]) -> dict[str, str]:
    """Old name → new name, in the nodes' order, outside first; outside names stay as they are."""
    nodes = sorted(nodes, key=lambda n: ("input", "state").index(n.op) if n.op in ("input", "state") else 2)
    names = {n.name: n.name for n in nodes if n.op in ("input", "state")}
    taken = set(names)
    for node in nodes:
        if node.name not in names:
            stem = node.op.split(".")[1].strip("_") if "." in node.op else node.op
            choices = (stem if i == 0 else f"{stem}_{i}" for i in range(len(nodes) + 1))
            names[node.name] = next(c for c in choices if c not in taken)
            taken.add(names[node.name])
    return {n.name: names[n.name] for n in nodes}


def _rewired(node: Node, name: str, names: dict[str, str]) -> Node:
    def rename(argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            return Ref(names.get(argument.name, argument.name))
        return tuple(map(rename, argument)) if isinstance(argument, tuple) else argument

    args = tuple(map(rename, node.args))
    kwargs = tuple((k, rename(v)) for k, v in node.kwargs)
    return Node(name, node.op, args, kwargs, node.shape, node.dtype)
