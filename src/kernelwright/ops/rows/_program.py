"""Program: a graph lowered to elementwise operations and reductions over one iteration space."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...languages.vectors import C_TYPES, FLOATS, STORED, Unprintable, pointwise_names
from ...records import Scalar, ScalarSpec, Workload
from ...tasks.capture import Graph, Node, Ref
from ._axes import Axes, Dims
from ._named import named
from ._value import Value

ReduceKind = Literal["sum", "max", "min", "product", "argmax", "argmin"]


Result = Value | tuple[Value | None, ...]
Rule = Callable[["Builder", Node], Result]
RULES: dict[str, Rule] = {}
"""Lowering rules by bare operator name, such as `native_layer_norm`; see `rules/`."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a lowering rule for operators that are not elementwise."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass
class Builder:
    """Makes the values of a program; rules call it."""

    axes: Axes = field(default_factory=Axes)
    values: list[Value] = field(default_factory=list)
    env: dict[str, Result] = field(default_factory=dict)
    """What each node of the graph became."""

    def get(self, argument: object) -> Value:
        """Return the value of a node that a rule reads."""
        found = self.env.get(argument.name) if isinstance(argument, Ref) else None
        if not isinstance(found, Value):
            raise Unprintable(f"{argument!r} is not one tensor")
        return found

    def load(self, name: str, position: int, shape: Sequence[int], dtype: str) -> Value:
        """Add an external tensor."""
        dims = tuple((self.axes.new(size),) for size in shape)
        stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        stem = f"t{stem}" if stem[:1].isdigit() else stem
        return self._add(Value(f"{stem}_{position}", "load", dims, position=position, dtype=dtype))

    def point(self, what: str, *args: Value | Scalar, **kwargs: Scalar) -> Value:
        """Apply an elementwise operator, named without `aten.`, with broadcasting."""
        what, args = named(what, args)
        operands = [a for a in args if isinstance(a, Value)]
        dims = self.axes.broadcast([a.dims for a in operands])
        return self._add(Value(self._name(what), "point", dims, args, what, tuple(kwargs.items())))

    def reduce(self, kind: ReduceKind, x: Value, dims: Iterable[int], *, keepdim: bool = False) -> Value:
        """Reduce over dimensions; none means all."""
        over, kept = self._reduced(x, dims, keepdim)
        if not over:
            raise Unprintable("a reduction over dimensions of size one")
        return self._add(Value(self._name(kind), "reduce", kept, (x,), kind, over=over))

    def count(self, x: Value, dims: Iterable[int]) -> Value:
        """Count the elements that a reduction folds, at run time."""
        over, _ = self._reduced(x, dims, False)
        return self._add(Value(self._name("count"), "count", (), over=over))

    def index(self, x: Value, dim: int) -> Value:
        """Return the position along one dimension."""
        axes = x.dims[dim]
        dims = tuple(axes if i == dim % len(x.dims) else () for i in range(len(x.dims)))
        return self._add(Value(self._name("index"), "index", dims, over=axes))

    def mean(self, x: Value, dims: Iterable[int], *, keepdim: bool = False) -> Value:
        """Average over dimensions; none means all."""
        dims = tuple(dims)
        return self.point("div", self.reduce("sum", x, dims, keepdim=keepdim), self.count(x, dims))

    def with_dims(self, x: Value, dims: Dims) -> Value:
        """Return the same values with another structure (a view)."""
        return self._add(Value(self._name("view"), "point", dims, (x,), "alias"))

    def _reduced(self, x: Value, dims: Iterable[int], keepdim: bool) -> tuple[tuple[int, ...], Dims]:
        rank = len(x.dims)
        chosen = {d % rank for d in dims} if rank else set()
        chosen = chosen or set(range(rank))
        over = tuple(a for d in sorted(chosen) for a in x.dims[d])
        kept = tuple(
            () if d in chosen else axes for d, axes in enumerate(x.dims) if keepdim or d not in chosen
        )
        return over, kept

    def _name(self, what: str) -> str:
        return f"{what.strip('_').lower()}{len(self.values)}"

    def _add(self, value: Value) -> Value:
        self.values.append(value)
        return value


@dataclass(frozen=True)
class Output:
    """One result of the kernel."""

    value: Value
    position: int
    dtype: str


@dataclass(frozen=True)
class Program:
    """Values in order of computation, inputs and outputs with their argument positions."""

    values: tuple[Value, ...]
    outputs: tuple[Output, ...]
    axes: Axes
    scalars: tuple[tuple[int, Scalar], ...]
    """Scalar arguments whose values are part of the computation, by position."""


def lower(graph: Graph, workload: Workload) -> Program:
    """Lower a captured graph.

    Raises:
        Unprintable: an operator, a dtype or the relation between axes is not covered.
    """
    if graph.mutations:
        raise Unprintable("the reference changes its inputs")
    builder = Builder()
    names = [*graph.inputs, *graph.state]
    positions = {name: i for i, name in enumerate(names) if name is not None}
    for node in graph.nodes:
        builder.env[node.name] = _lowered(builder, node, positions)
    outputs = tuple(
        Output(builder.get(Ref(name)), len(names) + i, graph.node(name).dtype)
        for i, name in enumerate(graph.outputs)
    )
    needed = _needed(outputs)
    for output in outputs:
        if output.dtype not in STORED | {"int64"}:
            raise Unprintable(f"output dtype {output.dtype}")
    values = tuple(v for v in builder.values if v in needed)
    for value in values:
        if value.op == "load" and value.dtype not in STORED | {"int64", "int32"}:
            raise Unprintable(f"input dtype {value.dtype}")
    return Program(values, outputs, builder.axes, _scalars(workload))


def _lowered(builder: Builder, node: Node, positions: dict[str, int]) -> Result:
    if node.op in ("input", "state"):
        return builder.load(node.name, positions[node.name], node.shape, node.dtype)
    if node.op == "getitem":
        source, which = node.args
        several = builder.env[source.name] if isinstance(source, Ref) else ()
        found = several[which] if isinstance(several, tuple) and isinstance(which, int) else None
        if found is None:
            raise Unprintable(f"result {which!r} of {source} is not computed")
        return found
    name = node.op.split(".")[1].rstrip("_") if node.op.startswith("aten.") else node.op
    if name in RULES:
        return RULES[name](builder, node)
    if name not in pointwise_names():
        raise Unprintable(f"no rule for {node.op}")
    if node.dtype not in STORED:
        raise Unprintable(f"{node.op} computes in {node.dtype}")
    args = tuple(builder.get(a) if isinstance(a, Ref) else _scalar(a) for a in node.args)
    kwargs = {
        k: _scalar(v) for k, v in node.kwargs if k not in ("dtype", "layout", "device", "memory_format")
    }
    return builder.point(name, *args, **kwargs)


def _scalar(argument: object) -> Scalar:
    if argument is None or isinstance(argument, bool | int | float | str):
        return argument
    raise Unprintable(f"argument {argument!r}")


def _scalars(workload: Workload) -> tuple[tuple[int, Scalar], ...]:
    found = [(i, a.value) for i, a in enumerate(workload.arguments) if isinstance(a, ScalarSpec)]
    if any(isinstance(value, tuple | str) for _, value in found):
        raise Unprintable("a scalar argument that is a tuple or a string")
    return tuple((i, value) for i, value in found if not isinstance(value, tuple))


def _needed(outputs: Sequence[Output]) -> set[Value]:
    needed: set[Value] = set()
    waiting = [output.value for output in outputs]
    while waiting:
        value = waiting.pop()
        if value not in needed:
            needed.add(value)
            waiting.extend(a for a in value.args if isinstance(a, Value))
    return needed


__all__ = ["C_TYPES", "FLOATS", "RULES", "Builder", "Output", "Program", "Value", "lower", "rule"]
