"""Captured ATen operations → graph form: one rule per operator, in `rules/`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...records import TensorSpec, Workload
from ...tasks.capture import Graph as CapturedGraph
from ...tasks.capture import Node as Captured
from ...tasks.capture import Ref
from ._nodes import (
    Constant,
    Expand,
    Input,
    Monoid,
    Native,
    Node,
    Number,
    Pad,
    Permute,
    Point,
    Ramp,
    Random,
    Reduce,
    Reshape,
    Slice,
    Weight,
    Window,
)  # fmt: skip
from ._size import broadcast

Result = Node | tuple[Node | None, ...]
Rule = Callable[["Reader", Captured], Result]
RULES: dict[str, Rule] = {}
"""By bare operator name, such as `native_layer_norm`."""
_RANDOM = ("rand", "bernoulli", "dropout", "multinomial", "normal", "uniform", "exponential", "randperm")


class NotRead(Exception):
    """The graph form cannot express the operation, or not with these arguments."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass
class Reader:
    """Reads one captured graph. Rules call it to look up operands and to make nodes.

    Operations without a rule become `Native`, so every captured graph has a form.
    """

    captured: CapturedGraph
    known: dict[str, Result] = field(default_factory=dict)
    at: Captured | None = None
    made: int = 0

    def read(self, workload: Workload) -> tuple[tuple[Input, ...], tuple[Node, ...]]:
        """Return inputs (the workload's arguments, then its state, used or not) and outputs."""
        inputs = []
        for position, spec in enumerate((*workload.arguments, *workload.state)):
            if isinstance(spec, TensorSpec):
                lasts = position >= len(workload.arguments) and not workload.cotangents
                kind = Weight if lasts else Input
                made = kind(
                    name=_identifier(spec.name), shape=spec.shape, dtype=spec.dtype, position=position
                )
                self.known[spec.name] = made
                inputs.append(made)
        for op in self.captured.nodes:
            if op.name not in self.known:
                self.known[op.name] = self._named(self._one(op), op)
        return tuple(inputs), tuple(self.node(Ref(name)) for name in self.captured.outputs)

    def _one(self, op: Captured) -> Result:
        self.at, self.made = op, 0
        name = op.op.split(".")[1] if op.op.startswith("aten.") else op.op
        try:
            if name not in RULES:
                raise NotRead(op.op)
            return RULES[name](self, op)
        except NotRead:
            return self._native(op, name)

    def _native(self, op: Captured, name: str) -> Result:
        sources = tuple(
            s for ref in dict.fromkeys(op.refs()) for s in self._several(self.known[ref]) if s is not None
        )
        kind = Random if any(word in name for word in _RANDOM) else Native
        if op.dtype == "tuple":
            return tuple(
                _native_node(kind, f"{op.name}_{n.args[1]}", n, sources, op.op) for n in self._parts(op)
            )
        return _native_node(kind, op.name, op, sources, op.op)

    def _parts(self, op: Captured) -> list[Captured]:
        """Return the `getitem` of every result that is used; gaps are filled with the first."""
        used = {n.args[1]: n for n in self.captured.users(op.name) if n.op == "getitem"}
        top = max((int(str(i)) for i in used), default=-1)
        return [used.get(i) or next(iter(used.values())) for i in range(top + 1)]

    @staticmethod
    def _several(result: Result) -> tuple[Node | None, ...]:
        return result if isinstance(result, tuple) else (result,)

    def _named(self, result: Result, op: Captured) -> Result:
        """Give the result the operation's name, unless it is a tensor that was there before."""
        before = {id(n) for found in self.known.values() for n in self._several(found)}
        if not isinstance(result, Node) or id(result) in before:
            return result
        return replace(result, name=_identifier(op.name))

    # What rules call -----------------------------------------------------------------------------------

    def node(self, argument: object) -> Node:
        """Return the tensor that an argument refers to."""
        found = self.known.get(argument.name) if isinstance(argument, Ref) else None
        if not isinstance(found, Node):
            raise NotRead(f"{argument!r} is not one tensor")
        return found

    def optional(self, argument: object) -> Node | None:
        """Return the tensor that an argument refers to, or none."""
        return None if argument is None else self.node(argument)

    def name(self, hint: str) -> str:
        """Name a node within the present operation."""
        assert self.at is not None
        self.made += 1
        return _identifier(f"{self.at.name}_{hint}{self.made}")

    def point(
        self, op: str, *args: Node | Number | None, dtype: str = "", **options: Number | str | None
    ) -> Node:
        """Make an elementwise operation; its shape is the broadcast one, its dtype that of the operands."""
        nodes = [a for a in args if isinstance(a, Node)]
        shape = broadcast([n.shape for n in nodes])
        kind = dtype or max((n.dtype for n in nodes), key=_width, default="float32")
        return Point(
            name=self.name(op), shape=shape, dtype=kind, op=op, args=args, options=tuple(options.items())
        )

    def constant(self, value: Number, shape: Sequence[int] = (), dtype: str = "float32") -> Node:
        """Make a tensor of one number."""
        return Constant(name=self.name("constant"), shape=tuple(shape), dtype=dtype, values=(value,))

    def ramp(self, size: int, dim: int, rank: int, dtype: str = "int64") -> Node:
        """Make positions 0, 1, ... along one dimension of a tensor of that rank."""
        shape = tuple(size if d == dim else 1 for d in range(rank))
        return Ramp(name=self.name("position"), shape=shape, dtype=dtype, dim=dim, start=0, step=1)

    def reduce(
        self,
        x: Node,
        dims: Sequence[int],
        monoid: Monoid,
        *,
        keepdim: bool = False,
        correction: float = 0.0,
        dtype: str = "",
    ) -> Node:
        """Reduce over dimensions, all if none are given; optionally keeps them as ones."""
        rank = len(x.shape)
        chosen = tuple(sorted({d % rank for d in dims})) if dims else tuple(range(rank))
        position = {"argmax": "int64", "argmin": "int64", "any": "bool", "all": "bool"}.get(monoid, x.dtype)
        kept = tuple(s for d, s in enumerate(x.shape) if d not in chosen)
        found: Node = Reduce(
            name=self.name(monoid), shape=kept, dtype=dtype or position, source=x, dims=chosen,
            monoid=monoid, correction=correction,
        ) if chosen else x  # fmt: skip
        if keepdim and chosen:
            found = self.reshape(found, [1 if d in chosen else s for d, s in enumerate(x.shape)])
        return found

    def mean(self, x: Node, dims: Sequence[int], *, keepdim: bool = False, dtype: str = "") -> Node:
        """Sum and divide by the count."""
        total = self.reduce(x, dims, "sum", keepdim=keepdim, dtype=dtype)
        rank = len(x.shape)
        chosen = {d % rank for d in dims} if dims else set(range(rank))
        return self.point("div", total, math.prod(x.shape[d] for d in chosen))

    def reshape(self, x: Node, shape: Sequence[int]) -> Node:
        """View the elements under another shape."""
        if tuple(shape) == x.shape:
            return x
        return Reshape(name=self.name("view"), shape=tuple(shape), dtype=x.dtype, source=x)

    def permute(self, x: Node, order: Sequence[int]) -> Node:
        """Put the dimensions in another order."""
        order = tuple(d % len(x.shape) for d in order)
        if order == tuple(range(len(order))):
            return x
        shape = tuple(x.shape[d] for d in order)
        return Permute(name=self.name("permute"), shape=shape, dtype=x.dtype, source=x, order=order)

    def expand(self, x: Node, shape: Sequence[int]) -> Node:
        """Broadcast to a shape."""
        if tuple(shape) == x.shape:
            return x
        return Expand(name=self.name("expand"), shape=tuple(shape), dtype=x.dtype, source=x)

    def slice(self, x: Node, dim: int, start: int, size: int, step: int = 1) -> Node:
        """Take `size` elements along a dimension, from `start` in steps."""
        dim %= len(x.shape)
        shape = tuple(size if d == dim else s for d, s in enumerate(x.shape))
        starts = tuple(start if d == dim else 0 for d in range(len(shape)))
        steps = tuple(step if d == dim else 1 for d in range(len(shape)))
        return Slice(
            name=self.name("slice"), shape=shape, dtype=x.dtype, source=x, starts=starts, steps=steps
        )

    def pad(self, x: Node, low: Sequence[int], high: Sequence[int], value: Number) -> Node:
        """Surround with a constant; negative widths crop."""
        if not any(low) and not any(high):
            return x
        shape = tuple(a + s + b for a, s, b in zip(low, x.shape, high, strict=True))
        return Pad(name=self.name("pad"), shape=shape, dtype=x.dtype, source=x, low=tuple(low), value=value)

    def window(
        self,
        x: Node,
        dims: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        counts: Sequence[int] = (),
    ) -> Node:
        """Cut sliding windows, as many as fit or `counts`; their dimensions come last."""
        shape = list(x.shape)
        for d, size, stride, dilation in zip(dims, sizes, strides, dilations, strict=True):
            shape[d] = (shape[d] - dilation * (size - 1) - 1) // stride + 1
        for d, count in zip(dims, counts, strict=False):
            shape[d] = count
        return Window(
            name=self.name("window"), shape=(*shape, *sizes), dtype=x.dtype, source=x, dims=tuple(dims),
            strides=tuple(strides), dilations=tuple(dilations),
        )  # fmt: skip


def ints(value: object, count: int | None = None) -> tuple[int, ...]:
    """Return a tuple of integers; one alone is repeated `count` times."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * (count or 1)
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        found = tuple(int(v) for v in value if isinstance(v, int))
        return found * count if count and len(found) == 1 else found
    raise NotRead(f"{value!r} is not a tuple of integers")


def number(value: object) -> Number:
    """Return a number."""
    if isinstance(value, bool | int | float):
        return value
    raise NotRead(f"{value!r} is not a number")


def _native_node(kind: type, name: str, spec: Captured, sources: tuple[Node, ...], op: str) -> Node:
    name = _identifier(name)
    if kind is Random:
        return Random(name=name, shape=spec.shape, dtype=spec.dtype, sources=sources)
    return Native(name=name, shape=spec.shape, dtype=spec.dtype, sources=sources, op=op)


def _width(dtype: str) -> int:
    """Rank dtypes as torch promotes them: bool, integers, floats."""
    order = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
    return order.index(dtype) if dtype in order else len(order)


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
