"""Transposed convolutions: all phases of the stride multiplied at once, instead of zeros between elements."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...tasks.capture import Node as Captured
from ..graph import Cat, Contract, Graph, Node, Pad, Permute, Point, Reshape, Slice, Window, same, sources_of
from ..graph import product as size_of
from ._state import State
from ._windows import behind_views, ints
from .convolve import convolved
from .product import nearest_products, plain_products


@dataclass(frozen=True)
class Phases:
    """Compute a transposed convolution as a plain one that has a channel for each phase of every result's channel.

    The results at `stride * i + phase` read the elements around `i`, through the weights of that phase: no zeros
    between elements are multiplied, nor the weights that a phase lacks. Where a stride does not divide the results,
    those of whole strides are computed, and their readers leave out the last. Legal in float32, for strides above one
    without dilation. Convolved directly (`convolve`); weights that are parameters are laid out ahead.
    """

    name = "phases"

    def sites(self, state: State) -> Iterator[str]:
        """Yield such products whose loops are plain."""
        yield from transposed(state)

    def apply(self, state: State, site: str) -> State:
        """Multiply all phases, and put the results in order."""
        found = transposed(state)[site]
        return convolved(*by_phases(state, found), found.ranges)


def by_phases(state: State, found: "Transposed") -> tuple[State, Contract]:
    """Return the state in which all phases are one product, whose form is open, and that."""
    multiplied = found.multiplied(found.kernel())
    whole = found.in_order(multiplied)
    graph = state.graph.rewritten({found.product: whole if found.is_whole else found.own(whole)})
    end = _end(graph, whole.name)
    before = state.decisions.before | ({end.name} if end not in graph.roots else set())
    return replace(state, graph=graph, decisions=replace(state.decisions, before=before)), multiplied


def _end(graph: Graph, name: str) -> Node:
    """Return the last value that is elementwise after results in order: what the product's kernel stores.

    Were that left open, and what follows no part of the kernel, results would be stored by phase.
    """
    end = next(node for node in graph.nodes if node.name == name)
    while graph.read_once(end):
        (user,) = graph.users[end]
        others = [s for s in sources_of(user) if s is not end]
        alike = isinstance(user, Point) and same(size_of(user.shape), size_of(end.shape))
        if not alike or any(nearest_products(s) for s in others):
            break
        end = user
    return end


def transposed(state: State) -> dict[str, "Transposed"]:
    """Return the plain products of transposed convolutions that step over elements, by name."""
    found = dict[str, Transposed]()
    for product in plain_products(state):
        for op in state.graph.operations:
            value = state.graph.values.get(op.name)
            if op.op.startswith("aten.convolution.") and value and product in nearest_products(value):
                made = _read(state.graph, product, op)
                found |= {product.name: made} if made else {}
    return found


def _read(graph: Graph, product: Contract, op: Captured) -> "Transposed | None":
    """Return a transposed convolution whose product is still as it was read; none for others."""
    x, kernel, _, strides, pads, dilations, transposed, more, groups = op.args
    source, weights = behind_views(graph, product.left, x), behind_views(graph, product.right, kernel)
    if not transposed or source is None or weights is None or product.dtype != "float32":
        return None
    rank = len(source.shape) - 2
    found = Transposed(
        product, source, weights, int(str(groups)), *(ints(v, rank) for v in (strides, pads, more))
    )
    steps = max(found.strides) > 1 and max(ints(dilations, rank)) == 1
    return found if steps and _same(product.shape, found.shape) else None


def _same(one: Sequence[int], two: Sequence[int]) -> bool:
    return len(one) == len(two) and all(map(same, one, two))


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution: what it reads, and how."""

    product: Contract
    source: Node
    """(batch, groups * channels, *sizes)."""
    weights: Node
    """(groups * channels, results, *windows)."""
    groups: int
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    more: tuple[int, ...]
    """Results added at the end."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The product's shape: (batch, (groups,) results, *sizes)."""
        sizes = (
            (size - 1) * s + w - 2 * p + m
            for size, s, w, p, m in zip(
                self.source.shape[2:], self.strides, self.weights.shape[2:], self.pads, self.more, strict=True
            )
        )  # fmt: skip
        return (self.source.shape[0], *self._grouped, self.weights.shape[1], *sizes)

    @property
    def _grouped(self) -> tuple[int, ...]:
        return (self.groups,) if self.groups > 1 else ()

    @property
    def _rank(self) -> int:
        return len(self.strides)

    @property
    def _first(self) -> list[int]:
        """Zeros before the weights, so that those of phase `a` are at `stride * u + a`."""
        return [-p % s for p, s in zip(self.pads, self.strides, strict=True)]

    @property
    def _taps(self) -> list[int]:
        """Elements that a result reads, along each axis."""
        sizes = zip(self.weights.shape[2:], self._first, self.strides, strict=True)
        return [-(-(w + first) // s) for w, first, s in sizes]

    @property
    def _counts(self) -> list[int]:
        """Results of a phase along each axis; the last is past the end if these are not integral."""
        last = zip(
            self.source.shape[2:], self.weights.shape[2:], self.pads, self.more, self.strides, strict=True
        )
        return [size - 1 - -(w - 2 * p + m) // s for size, w, p, m, s in last]

    @property
    def is_whole(self) -> bool:
        """Whether every phase has as many results."""
        whole = [c * s for c, s in zip(self._counts, self.strides, strict=True)]
        return _same(self.product.shape[-self._rank :], whole)

    @property
    def ranges(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each phase, from which tap to which it has weights, along each axis."""
        every = list[list[tuple[int, int]]]()
        sizes = zip(self.weights.shape[2:], self._first, self.strides, self._taps, strict=True)
        for w, first, s, taps in sizes:
            begins = [-((a - first) // s) for a in range(s)]
            ends = [(int(w) - 1 + first - a) // s for a in range(s)]
            every.append([(taps - 1 - e, taps - b) for b, e in zip(begins, ends, strict=True)])
        return tuple(itertools.product(*every))

    @property
    def is_even(self) -> bool:
        """Whether strides are two and windows four, so that every phase has two taps."""
        return set(self.strides) == {2} and all(same(size, 4) for size in self.weights.shape[2:])

    def of_phases(self) -> Node:
        """Return the weights by phase, no zeros, if `is_even`: ((groups,) phases * results, channels, *taps)."""
        w, g = self.weights, len(self._grouped)
        node = self._turned(self._node(Reshape, "by_taps", self._by_taps, w))
        order = self._phases_first
        node = self._node(Permute, "by_phase", [node.shape[d] for d in order], node, order=order)
        each = w.shape[0] // self.groups
        return self._node(
            Reshape, "own", (*self._grouped, self._results, each, *node.shape[g + self._rank + 2 :]), node
        )

    def around(self, node: Node) -> Node:
        """Return weights by phase (`of_phases`) with zeros for the taps that a phase lacks, as those of `kernel`."""
        w, g, rank = self.weights, len(self._grouped), self._rank
        each, taps = w.shape[0] // self.groups, (2,) * rank
        node = self._node(
            Reshape, "phases_apart", (*self._grouped, *self.strides, w.shape[1], each, *taps), node
        )
        for d, wide in enumerate(self._taps):
            if wide > 2:
                parts = tuple(self._of_phase(node, g + d, g + 2 + rank + d, phase) for phase in range(2))
                shape = tuple(wide if at == g + 2 + rank + d else size for at, size in enumerate(node.shape))
                node = Cat(
                    name=f"{self.product.name}_both{d}",
                    shape=shape,
                    dtype="float32",
                    sources=parts,
                    dim=g + d,
                )
        return self._node(Reshape, "weights", (*self._grouped, self._results, each, *self._taps), node)

    def _of_phase(self, node: Node, at: int, tap: int, phase: int) -> Node:
        """Return the weights of one phase along one axis, with a zero before or behind its taps."""
        first = tuple(phase if d == at else 0 for d in range(len(node.shape)))
        shape = tuple(1 if d == at else size for d, size in enumerate(node.shape))
        what = f"phase{at}{phase}"
        part = self._node(Slice, f"{what}_own", shape, node, starts=first, steps=(1,) * len(shape))
        low = tuple(phase if d == tap else 0 for d in range(len(shape)))
        shape = tuple(3 if d == tap else size for d, size in enumerate(shape))
        return self._node(Pad, f"{what}_filled", shape, part, low=low, value=0.0)

    @property
    def _by_taps(self) -> tuple[int, ...]:
        """Shape of the weights with windows cut: ((groups,) channels, results, *(taps, phases))."""
        w = self.weights.shape
        pairs = [size for wide, s in zip(w[2:], self.strides, strict=True) for size in (int(wide) // s, s)]
        return (*self._grouped, w[0] // self.groups, w[1], *pairs)

    @property
    def _phases_first(self) -> tuple[int, ...]:
        g, rank = len(self._grouped), self._rank
        at = [g + 2 + 2 * d for d in range(rank)]
        return (*range(g), *(d + 1 for d in at), g + 1, g, *at)

    def _turned(self, node: Node) -> Node:
        """Return cut weights with taps from last to first, and phases in the order of results."""
        lead = len(node.shape) - 2 * self._rank
        turned = [*(False,) * lead, *(flag for first in self._first for flag in (True, first > 0))]
        starts = tuple(size - 1 if flag else 0 for size, flag in zip(node.shape, turned, strict=True))
        steps = tuple(-1 if flag else 1 for flag in turned)
        return self._node(Slice, "in_turn", node.shape, node, starts=starts, steps=steps)

    def kernel(self) -> Node:
        """Return the weights by phase: ((groups,) phases * results, channels, *taps)."""
        w, rank, taps = self.weights, self._rank, self._taps
        wide = tuple(t * s for t, s in zip(taps, self.strides, strict=True))
        node = self._node(Pad, "filled", (*w.shape[:2], *wide), w, low=(0, 0, *self._first), value=0.0)
        each, g = w.shape[0] // self.groups, len(self._grouped)
        cut = [size for pair in zip(taps, self.strides, strict=True) for size in pair]
        node = self._node(Reshape, "cut", (*self._grouped, each, w.shape[1], *cut), node)
        at = [g + 2 + 2 * d for d in range(rank)]
        order = (*range(g), *(d + 1 for d in at), g + 1, g, *at)
        node = self._node(Permute, "phased", [node.shape[d] for d in order], node, order=order)
        still = len(node.shape) - rank
        starts, steps = (*(0,) * still, *(t - 1 for t in taps)), (*(1,) * still, *(-1,) * rank)
        node = self._node(Slice, "mirrored", node.shape, node, starts=starts, steps=steps)
        return self._node(Reshape, "weights", (*self._grouped, self._results, each, *taps), node)

    def multiplied(self, weights: Node) -> Contract:
        """Return the product of all phases: (batch, (groups,) phases * results, *counts)."""
        x, taps, counts = self.source, self._taps, self._counts
        offsets = zip(self.pads, self._first, self.strides, taps, strict=True)
        low = [t - 1 - (p + first) // s for p, first, s, t in offsets]
        sizes = tuple(c + t - 1 for c, t in zip(counts, taps, strict=True))
        node = self._node(Pad, "around", (*x.shape[:2], *sizes), x, low=(0, 0, *low), value=0.0)
        dims, ones = tuple(range(2, 2 + self._rank)), (1,) * self._rank
        node = self._node(
            Window, "windows", (*x.shape[:2], *counts, *taps), node, dims=dims, strides=ones, dilations=ones
        )
        if self._grouped:
            each = x.shape[1] // self.groups
            node = self._node(Reshape, "grouped", (x.shape[0], self.groups, each, *counts, *taps), node)
        g, space, inside = "g" * len(self._grouped), "xyz"[: self._rank], "uvw"[: self._rank]
        return Contract(
            name=f"{self.product.name}_phases", shape=(x.shape[0], *self._grouped, self._results, *counts),
            dtype="float32", left=node, right=weights,
            labels=(f"n{g}c{space}{inside}", f"{g}oc{inside}", f"n{g}o{space}"),
        )  # fmt: skip

    def in_order(self, multiplied: Contract) -> Node:
        """Return the results where they belong, as many as whole strides hold."""
        lead, counts = (self.source.shape[0], *self._grouped), self._counts
        node = self._node(
            Reshape, "apart", (*lead, *self.strides, self.weights.shape[1], *counts), multiplied
        )
        at, rank = len(lead), self._rank
        pairs = [(at + rank + 1 + d, at + d) for d in range(rank)]
        order = (*range(at), at + rank, *(d for pair in pairs for d in pair))
        node = self._node(Permute, "between", [node.shape[d] for d in order], node, order=order)
        whole = tuple(count * stride for count, stride in zip(counts, self.strides, strict=True))
        return self._node(Reshape, "" if self.is_whole else "whole", (*node.shape[: at + 1], *whole), node)

    def own(self, whole: Node) -> Node:
        """Return the product's results of those of whole strides."""
        rank = len(whole.shape)
        return self._node(Slice, "", self.product.shape, whole, starts=(0,) * rank, steps=(1,) * rank)

    @property
    def _results(self) -> int:
        results: int = self.weights.shape[1]
        for stride in self.strides:
            results = results * stride
        return results

    def _node(self, kind: type, what: str, shape: Sequence[int], source: Node, **more: object) -> Node:
        """Make a view, named after the product; the replacement has the product's name."""
        name = f"{self.product.name}_{what}" if what else self.product.name
        found: Node = kind(name=name, shape=tuple(shape), dtype="float32", source=source, **more)
        return found
