"""Capture → Regions: which parts of a model may be changed as one, and which of them are the same."""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from torch import fx

from ..records import content_key
from .pieces import Capture, Printed, Unprintable, printed

Kind = Literal["op", "fused", "block", "chain"]

PRODUCTS = ("linear", "mm", "addmm", "bmm", "baddbmm", "matmul", "convolution", "conv1d", "conv2d", "conv3d",
            "scaled_dot_product_attention", "embedding", "_scaled_dot_product_flash_attention_for_cpu")  # fmt: skip
"""Operators between which everything else can be fused."""
_MOVES = frozenset({
    "view", "_unsafe_view", "reshape", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select",
    "split", "split_with_sizes", "chunk", "unbind", "t", "alias", "clone", "detach", "getitem", "unflatten", "flatten",
})  # fmt: skip
"""Operators that compute nothing."""
_MOST_NODES = 400
"""Nodes of the largest region: what is larger is planned by its parts."""


@dataclass(frozen=True)
class Unit:
    """A part of a graph: the nodes from `start` up to `stop`, in the order in which they run."""

    kind: Kind
    """One operator, a run of operators between products, one module, or modules in a row."""
    label: str
    """What it is called: operators, or the module's name."""
    start: int
    """Place of its first node."""
    stop: int
    """Place after its last node."""

    def overlaps(self, other: "Unit") -> bool:
        """Tell whether two parts share a node."""
        return self.start < other.stop and other.start < self.stop


@dataclass(frozen=True)
class Region:
    """Equal parts of one graph: the same operators, shapes and dtypes, on other values and weights."""

    kind: Kind
    """What the parts are."""
    label: str
    """What the first is called."""
    units: tuple[Unit, ...]
    """The parts, none of which overlap, in order."""
    texts: tuple[Printed, ...]
    """The code of each part, the same but for the nodes that it reads and yields."""

    @property
    def key(self) -> str:
        """Hash of the computation."""
        return _key(self.texts[0])

    def overlaps(self, other: "Region") -> bool:
        """Tell whether any parts of two regions share a node."""
        return any(a.overlaps(b) for a in self.units for b in other.units)


@dataclass(frozen=True)
class Found:
    """The regions of one graph."""

    regions: tuple[Region, ...]
    """Those that can become tasks."""
    native: tuple[str, ...]
    """Parts that stay native, each with the reason."""


def regions_of(capture: Capture) -> Found:
    """Find the parts of a graph that can become tasks, equal ones together.

    Example:
        >>> from kernelwright.models import capture_model, load_model
        >>> found = regions_of(capture_model(load_model("examples/small_transformer.py:build")).pieces[0])
        >>> [len(r.units) for r in found.regions if r.label == "layers.0.mlp"]
        [4]
    """
    groups: dict[str, list[tuple[Unit, Printed]]] = {}
    native: dict[str, str] = {}
    for unit in _units(capture):
        try:
            text = printed(capture, unit.start, unit.stop)
        except Unprintable as error:
            native.setdefault(unit.label, str(error))
            continue
        group = groups.setdefault(_key(text), [])
        if not any(unit.overlaps(other) for other, _ in group):
            group.append((unit, text))
    regions = (
        Region(g[0][0].kind, g[0][0].label, tuple(u for u, _ in g), tuple(t for _, t in g))
        for g in groups.values()
    )
    return Found(tuple(regions), tuple(f"{label}: {why}" for label, why in native.items()))


def _key(text: Printed) -> str:
    """Hash a computation: lines, shapes and dtypes."""
    return content_key(*text.lines, *map(repr, text.shapes), *text.returned)


def operator_name(node: fx.Node) -> str:
    """Return the operator of a node without namespace and overload: `linear`."""
    if node.target is operator.getitem:
        return "getitem"
    return str(node.target).split(".")[1]


def computes(node: fx.Node) -> bool:
    """Tell whether a node does more than to move or rename what it is given."""
    return operator_name(node) not in _MOVES


def _units(capture: Capture) -> Iterator[Unit]:
    """Yield each part once, blocks before the operators that are the same."""
    seen: set[tuple[int, int]] = set()
    for unit in (*_blocks(capture), *_chains(capture), *_fused(capture), *_operators(capture)):
        place = _trimmed(capture, unit)
        if place is not None and place not in seen and place[1] - place[0] <= _MOST_NODES:
            seen.add(place)
            yield Unit(unit.kind, unit.label, *place)


def _trimmed(capture: Capture, unit: Unit) -> tuple[int, int] | None:
    """Leave out nodes at both ends that compute nothing, and all that is the same in every call."""
    places = [
        i
        for i in range(unit.start, unit.stop)
        if computes(capture.nodes[i]) and capture.nodes[i].name not in capture.folded
    ]
    if not places or (unit.kind in ("fused", "chain") and len(places) < 2):
        return None
    last = places[-1] + 1
    while last < unit.stop and operator_name(capture.nodes[last]) == "getitem":
        last += 1
    return places[0], last


def _blocks(capture: Capture) -> Iterator[Unit]:
    """Yield each module of the model as far as its nodes run in a row; the model itself is none."""
    open_since: dict[str, int] = {}
    for place in range(len(capture.nodes) + 1):
        inside = capture.paths[capture.nodes[place].name] if place < len(capture.nodes) else ()
        for path in [p for p in open_since if p not in inside]:
            yield Unit("block", path, open_since.pop(path), place)
        for path in inside:
            open_since.setdefault(path, place)


def _chains(capture: Capture) -> Iterator[Unit]:
    """Yield pairs of neighbouring modules of one parent, with what runs between them."""
    children: dict[str, list[Unit]] = {}
    for block in sorted(_blocks(capture), key=lambda b: b.start):
        children.setdefault(block.label.rpartition(".")[0], []).append(block)
    for siblings in children.values():
        for left, right in pairwise(siblings):
            if left.stop <= right.start:
                yield Unit("chain", f"{left.label} to {right.label}", left.start, right.stop)


def _fused(capture: Capture) -> Iterator[Unit]:
    """Yield every run of nodes between two products."""
    for start, stop in pairwise([-1, *_products(capture.nodes), len(capture.nodes)]):
        inside = [n for n in capture.nodes[start + 1 : stop] if computes(n) and n.name not in capture.folded]
        if inside:
            yield Unit("fused", _listed([operator_name(n) for n in inside]), start + 1, stop)


def _products(nodes: Sequence[fx.Node]) -> list[int]:
    return [i for i, node in enumerate(nodes) if operator_name(node) in PRODUCTS]


def _operators(capture: Capture) -> Iterator[Unit]:
    for place, node in enumerate(capture.nodes):
        yield Unit("op", operator_name(node), place, place + 1)


def _listed(names: Sequence[str], most: int = 4) -> str:
    """List operators in order, a long list by its ends."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:2])} ... {', '.join(names[-2:])} ({len(names)})"
