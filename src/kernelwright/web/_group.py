"""An open group: nodes over one shape that become one program over its rows."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..tasks.capture import Argument, Node, Ref
from ._program import Plain, Program, Step
from ._rows import (
    Expression,
    is_normalisation,
    is_pointwise,
    is_reduction,
    normalisation,
    number,
    packet_of,
    pointwise,
    reduced_axes,
    reduction,
    splits,
)

_BYTES = 4
_MOST_TERMS = 64
"""Terms of one expression; a longer one is stored first, as shared parts are written out wherever they are used."""
Expand = Callable[[int, Sequence[int], Sequence[int]], int]
"""A tensor, its shape and the shape to repeat it to → the tensor that holds it."""


@dataclass
class Group:
    """Nodes that can share one loop over rows; `cuts` says where a row may still begin."""

    full: tuple[int, ...]
    cuts: set[int]
    members: dict[str, Node] = field(default_factory=dict)
    narrow: set[str] = field(default_factory=set)
    """Members with one value a row."""
    terms: dict[str, int] = field(default_factory=dict)
    reduces: bool = False

    @staticmethod
    def for_node(node: Node, shapes: Mapping[str, Sequence[int]]) -> "Group":
        """Open a group that begins with this node."""
        full = tuple(node.shape) if is_pointwise(node) else tuple(shapes[first_of(node)])
        return Group(full, set(range(max(len(full), 1))))

    def takes(self, node: Node, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Add the node where its rows can be the group's; tell whether they can."""
        cuts, narrow = self._cuts_with(node, shapes)
        terms = 1 + sum(self.terms.get(name, 1) for name in node.refs())
        if not cuts or terms > _MOST_TERMS:
            return False
        self.cuts, self.members[node.name], self.terms[node.name] = cuts, node, terms
        if narrow:
            self.narrow.add(node.name)
            self.terms[node.name] = 1
        if is_reduction(node) or is_normalisation(node):
            self.reduces, self.terms[node.name] = True, 2
        return True

    def _cuts_with(self, node: Node, shapes: Mapping[str, Sequence[int]]) -> tuple[set[int], bool]:
        if is_reduction(node) or is_normalisation(node):
            first, operands = first_of(node), dict.fromkeys(node.refs())
            axes, ndim = reduced_axes(node, self.full), len(self.full)
            trailing = axes == tuple(range(ndim - len(axes), ndim)) or not ndim
            if tuple(shapes[first]) != self.full or first in self.narrow or not trailing:
                return set(), False
            cuts = self.cuts & {max(ndim - len(axes), 0)}
            for name in list(operands)[1:]:
                cuts &= splits(shapes[name], self.full)
            return cuts, is_reduction(node)
        inside = [name for name in node.refs() if name in self.members]
        if inside and all(name in self.narrow for name in node.refs()):
            return self.cuts, True
        wide = is_batch_norm(node) or tuple(node.shape) == self.full
        cuts = set(self.cuts) if wide else set()
        for name in node.refs():
            if name in self.narrow and len(shapes[name]) != len(self.full):
                return set(), False
            if name not in self.members:
                cuts &= splits(operand_shape(node, name, shapes), self.full)
        return cuts, False


def first_of(node: Node) -> str:
    """Return the name of the first operand."""
    return next(iter(node.refs()))


def is_batch_norm(node: Node) -> bool:
    """Tell whether the node is a batch norm with given statistics."""
    return packet_of(node) == "_native_batch_norm_legit_no_training"


def operand_shape(node: Node, name: str, shapes: Mapping[str, Sequence[int]]) -> Sequence[int]:
    """Return the shape of an operand as it is broadcast: a batch norm's vectors lie along the second axis."""
    shape, first = shapes[name], first_of(node)
    return (*shape, *[1] * (len(shapes[first]) - 2)) if is_batch_norm(node) and name != first else shape


class Emitter:
    """Writes a closed group into the program."""

    def __init__(self, group: Group, program: Program, shapes: Mapping[str, Sequence[int]], expand: Expand):
        self.group, self.program, self.shapes, self.expand = group, program, shapes, expand
        self.cut = min(group.cuts)
        self.rows, self.width = math.prod(group.full[: self.cut]), math.prod(group.full[self.cut :])
        self.inputs: list[tuple[int, dict[str, Plain]]] = []
        self.outputs: list[tuple[int, dict[str, Plain]]] = []
        self.passes: list[Plain] = []
        self.of: dict[str, Expression] = {}

    def emit(
        self, place: Mapping[str, int], kept: Collection[str], results: Collection[str]
    ) -> dict[str, int]:
        """Add the step and return the tensors of the members that are kept."""
        for number_of, node in enumerate(self.group.members.values()):
            self.of[node.name] = self._member(replace(node, name=f"r{number_of}"), node.name, place)
        made: dict[str, int] = {}
        for name in kept:
            narrow = name in self.group.narrow
            made[name] = self.program.new("output" if name in results else "between", self.shapes[name])
            place_of = self._output(made[name], _BYTES if narrow else self.width * _BYTES)
            self.passes.append(
                {"to": place_of, "be": self.of[name]} if narrow else {"store": place_of, "of": self.of[name]}
            )
        sizes: dict[str, Plain] = {
            "rows": self.rows, "width": self.width, "inputs": [i for _, i in self.inputs],
            "outputs": [o for _, o in self.outputs], "passes": self.passes,
        }  # fmt: skip
        program = {"program": sizes}
        read, written = tuple(t for t, _ in self.inputs), tuple(t for t, _ in self.outputs)
        self.program.steps.append(Step("rows", dict[str, Plain](program), read, written))
        return made

    def _output(self, tensor: int, row_bytes: int) -> int:
        self.outputs.append((tensor, {"row": row_bytes}))
        return len(self.outputs) - 1

    def _member(self, node: Node, name: str, place: Mapping[str, int]) -> Expression:
        """Write a member's passes, which know it by its place, so that equal programs are equal."""
        operands = [self._operand(a, node, place) for a in operands_of(node)]
        if is_pointwise(node):
            made = pointwise(node, operands)
        elif is_batch_norm(node):
            made = self._batch_norm(node, operands)
        elif is_reduction(node):
            passes, made = reduction(node, operands[0], self.width)
            self.passes += passes
        else:
            spare = -1
            if packet_of(node) == "_softmax":
                spare = self._output(self.program.new("between", (self.width,)), 0)
            passes, made = normalisation(node, operands, self.width, spare)
            self.passes += passes
        if name in self.group.narrow:
            self.passes.append({"name": f"{node.name}.row", "be": made})
            return ["let", f"{node.name}.row"]
        return made

    def _batch_norm(self, node: Node, given: Sequence[Expression]) -> Expression:
        x, weight, bias, mean, variance = given
        tag, eps = node.name, number(node.arguments()["eps"])
        inverse: Expression = ["rsqrt", ["add", variance, eps]]
        scale: Expression = inverse if weight is None else ["mul", weight, inverse]
        shift: Expression = ["mul", mean, ["let", f"{tag}.scale"]]
        self.passes += [
            {"name": f"{tag}.scale", "be": scale},
            {"name": f"{tag}.shift", "be": ["sub", 0 if bias is None else bias, shift]},
        ]
        return ["add", ["mul", x, ["let", f"{tag}.scale"]], ["let", f"{tag}.shift"]]

    def _operand(self, argument: Argument, node: Node, place: Mapping[str, int]) -> Expression:
        if argument is None:
            return None
        if not isinstance(argument, Ref):
            return number(argument)
        if argument.name in self.of:
            return self.of[argument.name]
        tensor, moves = self._moves(place[argument.name], operand_shape(node, argument.name, self.shapes))
        known = [t for t, how in self.inputs if how == moves]
        if tensor not in known:
            self.inputs.append((tensor, moves))
        return ["in", next(i for i, one in enumerate(self.inputs) if one == (tensor, moves))]

    def _moves(self, tensor: int, shape: Sequence[int]) -> tuple[int, dict[str, Plain]]:
        """Return the tensor and how far its address moves from row to row and within a row, in bytes."""
        full, cut = self.group.full, self.cut
        padded = (*[1] * (len(full) - len(shape)), *shape)
        lead, across = padded[:cut], padded[cut:] == tuple(full[cut:]) and self.width > 1
        per_row = self.width if across else 1
        if math.prod(lead) == 1:
            return tensor, {"row": 0, "step": _BYTES if across else 0}
        if lead != tuple(full[:cut]):
            tensor = self.expand(tensor, padded, (*full[:cut], *padded[cut:]))
        return tensor, {"row": per_row * _BYTES, "step": _BYTES if across else 0}


def operands_of(node: Node) -> list[Argument]:
    """Return the tensors and numbers that an expression is made from, in order; none where one is left out."""
    given = node.arguments()
    if packet_of(node) in {"pow", "clamp", "clamp_min", "clamp_max", "leaky_relu", "hardtanh", "gelu"}:
        return [given["self"]]
    if packet_of(node) == "native_layer_norm":
        return [given["input"], given["weight"], given["bias"]]
    if is_batch_norm(node):
        return [given[name] for name in ("input", "weight", "bias", "running_mean", "running_var")]
    return [given["self"], *([given["other"]] if "other" in given else [])]
