"""Graph → what rewriting saves: the share of each operation that some kernel has to compute at every call."""

from collections.abc import Iterator
from functools import cached_property
from math import prod

import torch

from ..tasks.capture import Graph, Node, Ref
from ._views import GATHERS, PARTS, VIEWS, WINDOWS, covered

MATRIX = {
    "aten.mm.default": (0, 1), "aten.bmm.default": (0, 1), "aten.addmm.default": (1, 2),
    "aten.baddbmm.default": (1, 2), "aten.dot.default": (0, 1), "aten.mv.default": (0, 1),
}  # fmt: skip
"""Matrix products, with the positions of their operands."""
CONVOLUTION = "aten.convolution.default"
_SUMS = frozenset({"aten.sum.dim_IntList", "aten.sum.default", "aten.mean.dim", "aten.mean.default"})
_EXTREMES = frozenset(f"aten.{name}" for name in ("max.dim", "min.dim", "amax.default", "amin.default"))
_LINEAR = VIEWS | {
    "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Scalar", "aten.div.Scalar", "aten.add.Scalar", "aten.neg.default",
    "getitem",
}  # fmt: skip
_BY_ROWS = frozenset({"aten.native_layer_norm.default", "getitem", *VIEWS, *MATRIX, CONVOLUTION})
"""Ops of which a part of the result needs a part of what goes in; so do elementwise ones."""
_NOT_NEGATIVE = frozenset({"sigmoid", "relu", "exp", "abs", "sqrt", "_softmax"})


def operand(node: Node, position: int) -> str:
    """Return the name of the tensor at a position of an op's arguments."""
    argument = node.args[position]
    if not isinstance(argument, Ref):
        raise TypeError(f"argument {position} of {node.name} is {argument!r}; expected a tensor")
    return argument.name


def stem_of(node: Node) -> str:
    """Return the name of an op without namespace and overload."""
    return node.op.removeprefix("aten.").split(".")[0]


def is_pointwise(node: Node) -> bool:
    """Whether an op computes each element of its result from the elements at its place."""
    return torch.Tag.pointwise in _tags(node)


class Algebra:
    """What known rewritings save of a graph.

    Covers: what depends on parameters alone, twice the same, parts that nothing reads, sums of linear maps, work on
    values that a gather or broadcast repeats, a product whose result is a factor of another.
    Does not cover: identities between functions, such as the logarithm of an exponential.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def lasting(self) -> frozenset[str]:
        """Nodes that depend on no input: computed ahead of the calls."""
        found: set[str] = set()
        changed = {name for pair in self.graph.mutations for name in pair}
        for node in self.graph.nodes:
            depends = node.op == "input" or node.name in changed or _draws(node)
            if not depends and all(name in found for name in node.refs()):
                found.add(node.name)
        return frozenset(found)

    def share(self, node: Node) -> float:
        """Return the share of an op's work that is left."""
        if node.name in self.lasting or node.name in self._again or node.name in self._behind_sums:
            return 0.0
        return self.read[node.name] * self._distinct.get(node.name, 1.0)

    def ends_in_sum(self, node: Node) -> bool:
        """Whether only sums or further products of the result are used: they can be reordered."""
        if any(name in self.graph.outputs for name in self._linear_reach(node)):
            return False
        ends = [
            (name, u)
            for name in self._linear_reach(node)
            for u in self.graph.users(name)
            if not _is_linear(u)
        ]
        return bool(ends) and all(u.op in _SUMS or self._multiplies(u, name) for name, u in ends)

    def users_through(self, node: Node) -> Iterator[Node]:
        """Yield the first users that are not linear elementwise ops."""
        for name in self._linear_reach(node):
            yield from (u for u in self.graph.users(name) if not _is_linear(u))

    def is_product(self, node: Node) -> bool:
        """Whether an op is a product of matrices or a convolution."""
        return node.op in MATRIX or node.op == CONVOLUTION

    def factors(self, node: Node) -> tuple[Node, Node]:
        """Return the operands of a product of matrices or of a convolution."""
        first, second = MATRIX.get(node.op, (0, 1))
        return self.graph.node(operand(node, first)), self.graph.node(operand(node, second))

    def behind(self, factor: Node) -> Iterator[Node]:
        """Yield products of which a factor is a linear map."""
        waiting, seen = [factor], set[str]()
        while waiting:
            here = waiting.pop()
            if here.name in seen:
                continue
            seen.add(here.name)
            if self.is_product(here):
                yield here
            elif _is_linear(here) or here.op in _SUMS:
                waiting += map(self.graph.node, here.refs())

    def _multiplies(self, node: Node, name: str) -> bool:
        return self.is_product(node) and name in (factor.name for factor in self.factors(node))

    def _linear_reach(self, node: Node) -> Iterator[str]:
        waiting, seen = [node.name], set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                yield name
                waiting.extend(u.name for u in self.graph.users(name) if _is_linear(u))

    @cached_property
    def _again(self) -> frozenset[str]:
        """Ops that another has computed before, or that change nothing."""
        first: dict[str, str] = {}
        same: dict[str, str] = {}
        for node in self.graph.ops:
            if self._changes_nothing(node):
                same[node.name] = operand(node, 0)
                continue
            key = f"{node.op}{_renamed(node.args, same)}{_renamed(node.kwargs, same)}"
            if key in first and not _draws(node):
                same[node.name] = first[key]
            first.setdefault(key, node.name)
        return frozenset(same)

    def _changes_nothing(self, node: Node) -> bool:
        if node.op in ("aten.relu.default", "aten.abs.default"):
            return stem_of(self.graph.node(operand(node, 0))) in _NOT_NEGATIVE
        if node.op not in _SUMS | _EXTREMES or not isinstance(node.args[0], Ref):
            return False
        dims = node.arguments().get("dim")
        shape = self.graph.node(operand(node, 0)).shape
        axes = dims if isinstance(dims, tuple) else (dims,)
        return bool(axes) and all(isinstance(d, int) and shape[d] == 1 for d in axes)

    @cached_property
    def _behind_sums(self) -> frozenset[str]:
        """Linear ops, and sums, that are done on the sums instead."""
        found: set[str] = set()
        for node in self.graph.ops:
            if self.is_product(node) and self.ends_in_sum(node):
                found |= {*self._linear_reach(node)} - {node.name}
                found |= {u.name for u in self.users_through(node) if u.op in _SUMS}
            elif _is_linear(node) and len([*node.refs()]) == 1 and self.ends_in_sum(node):
                found.add(node.name)
        return frozenset(found)

    @cached_property
    def read(self) -> dict[str, float]:
        """Share of each result that something reads; what a norm or a sum reads it reads whole."""
        kept = {*self.graph.outputs, *(new for _, new in self.graph.mutations)}
        shares: dict[str, float] = {}
        for node in reversed(self.graph.nodes):
            users = self.graph.users(node.name)
            windows = [u for u in users if u.op in WINDOWS and u.args[0] == Ref(node.name)]
            needs = [self._part(node, u, shares[u.name]) for u in users if u not in windows]
            needs.append(covered(node, windows) * max((shares[u.name] for u in windows), default=0.0))
            shares[node.name] = 1.0 if node.name in kept else min(1.0, max(needs))
        return shares

    def _part(self, node: Node, user: Node, share: float) -> float:
        if user.op in GATHERS | PARTS and user.args[0] == Ref(node.name):
            return min(1.0, user.elements / node.elements) * share if node.elements else 0.0
        if user.op in _BY_ROWS or is_pointwise(user):
            return share
        return 1.0 if share else 0.0

    @cached_property
    def _distinct(self) -> dict[str, float]:
        """Share of the results that differ, of what a broadcast or a gather repeats."""
        found: dict[str, float] = {}
        bases: dict[str, tuple[int, ...]] = {}
        rows: dict[str, tuple[str, float]] = {}
        for node in self.graph.nodes:
            refs = [self.graph.node(name) for name in node.refs()]
            if node.op in GATHERS and len(refs) == 2:
                table, index = refs if refs[0].dtype.startswith(("float", "bfloat")) else reversed(refs)
                repeats = min(1.0, table.elements / max(node.elements, 1))
                rows[node.name] = index.name, 0.0 if table.name in self.lasting else repeats
            elif node.op == "aten.expand.default":
                bases[node.name] = bases.get(refs[0].name, refs[0].shape)
            elif node.op in VIEWS and refs and refs[0].name in rows:
                rows[node.name] = rows[refs[0].name]
            elif is_pointwise(node) and refs:
                base = _broadcast([bases.get(r.name, r.shape) for r in refs])
                if prod(base) < node.elements:
                    bases[node.name], found[node.name] = base, prod(base) / node.elements
                large = {rows.get(r.name) for r in refs if len(r.shape) > 1}
                if len(large) == 1 and None not in large:
                    (rows[node.name],) = (row for row in large if row is not None)
                    found[node.name] = rows[node.name][1]
            elif node.op in ("aten.mm.default", "aten.addmm.default"):
                left, right = self.factors(node)
                if left.name in rows:
                    by, share = rows[left.name]
                    rows[node.name] = by, share if share or right.name in self.lasting else 1.0
                    found[node.name] = rows[node.name][1]
        return found


def _is_linear(node: Node) -> bool:
    if node.op in ("aten.mul.Tensor", "aten.div.Tensor"):
        return not isinstance(node.args[1], Ref)
    return node.op in _LINEAR


def _draws(node: Node) -> bool:
    """Whether an op draws random numbers."""
    return torch.Tag.nondeterministic_seeded in _tags(node)


def _tags(node: Node) -> list[torch.Tag]:
    if not node.op.startswith("aten."):
        return []
    _, packet, overload = node.op.split(".")
    found: list[torch.Tag] = getattr(getattr(torch.ops.aten, packet), overload).tags
    return found


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    wide = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*wide, strict=True))


def _renamed(argument: object, same: dict[str, str]) -> str:
    if isinstance(argument, tuple):
        return f"({','.join(_renamed(a, same) for a in argument)})"
    return same.get(argument.name, argument.name) if isinstance(argument, Ref) else repr(argument)
