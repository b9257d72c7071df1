"""Edges of several relations → orders of them in which layers read their ends."""

from functools import cached_property

import torch

from .._core import checked, refuse, told

_Tensor = torch.Tensor


class RelationalGraph:
    """Edges with relations, sorted once for all layers and calls on them.

    Args:
        edge_index: (2, edges) int64: sources, then targets.
        edge_type: (edges,) int64: the relation of each edge.
        nodes: How many nodes there are.
        relations: How many relations there are.

    Raises:
        ArgumentError: shapes or dtypes do not fit, an end is no node, or a type no relation.

    Example:
        >>> graph = RelationalGraph(torch.tensor([[0, 1, 1], [2, 2, 0]]), torch.tensor([0, 0, 1]), nodes=3, relations=2)
        >>> graph.first.tolist(), graph.source.tolist()
        ([0, 1, 1, 3], [1, 0, 1])
    """

    @checked
    def __init__(self, edge_index: _Tensor, edge_type: _Tensor, *, nodes: int, relations: int) -> None:
        name = "graph.RelationalGraph"
        for which, x, dim in (("edge_index", edge_index, 2), ("edge_type", edge_type, 1)):
            if not isinstance(x, torch.Tensor) or x.dtype is not torch.int64 or x.dim() != dim:
                refuse(name, which, told(x), f"{'(2, edges)' if dim == 2 else '(edges,)'} int64")
        if edge_index.shape != (2, len(edge_type)):
            refuse(
                name,
                "edge_index",
                f"of shape {tuple(edge_index.shape)}",
                f"(2, {len(edge_type)}), as edge_type says",
            )
        if nodes < 0 or relations < 1:
            refuse(name, "nodes, relations", f"{nodes}, {relations}", "0 or more, and 1 or more")
        for what, x, count in (("edge_index", edge_index, nodes), ("edge_type", edge_type, relations)):
            if x.numel() and not (int(x.min()) >= 0 and int(x.max()) < count):
                refuse(name, what, f"{int(x.min())} to {int(x.max())}", f"0 to {count - 1}")
        self.nodes, self.relations = nodes, relations
        source, target = edge_index
        self.order = torch.argsort(target, stable=True)
        """Place of each sorted edge among those that were given."""
        self.source, self.target = source[self.order], target[self.order]
        """Ends of the edges, sorted by target."""
        self.type = edge_type[self.order]
        """Relation of each."""
        self.first = _first(self.target, nodes)
        """(nodes + 1,): where the edges into each node begin."""

    @cached_property
    def mean(self) -> _Tensor:
        """(edges,) float32: one over the edges of the same relation into the same node."""
        key = self.target * self.relations + self.type
        _, which, count = torch.unique(key, return_inverse=True, return_counts=True)
        mean: _Tensor = 1.0 / count[which].float()
        return mean

    @cached_property
    def sources(self) -> "Ends":
        """Sources of each relation, each once."""
        return Ends(self.source, self.type, self.nodes, self.relations)

    @cached_property
    def targets(self) -> "Ends":
        """Targets of each relation, each once."""
        return Ends(self.target, self.type, self.nodes, self.relations)

    @cached_property
    def into_targets(self) -> tuple[_Tensor, _Tensor, _Tensor]:
        """Edges sorted by relation and target: where each pair's begin, their order, their sources."""
        order = torch.argsort(self.targets.pair, stable=True)
        return _first(self.targets.pair[order], len(self.targets.node)), order, self.source[order]

    @cached_property
    def of_targets(self) -> tuple[_Tensor, _Tensor]:
        """Pairs of relation and target sorted by target: where each node's begin, and which pairs."""
        order = torch.argsort(self.targets.node, stable=True)
        return _first(self.targets.node[order], self.nodes), order


class Ends:
    """The pairs of a relation and a node that occur, by relation."""

    def __init__(self, node: _Tensor, kind: _Tensor, nodes: int, relations: int) -> None:
        pairs, self.pair = torch.unique(kind * max(1, nodes) + node, return_inverse=True)
        self.node = pairs % max(1, nodes)
        """(pairs,): the node of each."""
        relation = pairs // max(1, nodes)
        self.sizes = [int(i) for i in torch.bincount(relation, minlength=relations)]
        """How many pairs each relation has."""


def _first(sorted_keys: _Tensor, count: int) -> _Tensor:
    first = torch.zeros(count + 1, dtype=torch.int64, device=sorted_keys.device)
    first[1:] = torch.bincount(sorted_keys, minlength=count).cumsum(0)
    return first
