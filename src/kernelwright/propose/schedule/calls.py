"""A program as a Python function: it allocates buffers, calls kernels and torch in turn, returns the outputs."""

import math
from collections.abc import Callable

from ...tasks.capture import Node as Captured
from ...tasks.capture import Ref
from .graph import Graph, Node, Real, text_of
from .printing import Unprintable
from .tile import (
    Contraction,
    Kernel,
    Load,
    NativeCall,
    Program,
    Row,
    Store,
    as_loops,
    expressions,
    statements,
    walk,
)

Launch = Callable[[Kernel | Contraction], list[str]]
"""A step → the statements that run it; what it writes is allocated already."""


class NotCalled(Unprintable):
    """A native operation cannot be written as a call."""


def touched(step: Kernel | Contraction) -> tuple[list[str], list[str]]:
    """Name the buffers that a kernel reads and those that it writes."""
    kernel = as_loops(step) if isinstance(step, Contraction) else step
    reads, writes, own = dict[str, None](), dict[str, None](), set[str]()
    for s in statements(kernel.body):
        if isinstance(s, Row):
            own.add(s.buffer)
        if isinstance(s, Store):
            writes[s.buffer] = None
        for x in expressions(s):
            reads |= dict.fromkeys(e.buffer for e in walk(x) if isinstance(e, Load))
    return [name for name in reads if name not in writes], [name for name in writes if name not in own]


class Calls:
    """Prints the function that runs a program."""

    def __init__(
        self, program: Program, graph: Graph, entry: str, launch: Launch, *, device: str = ""
    ) -> None:
        self.program, self.graph, self.entry, self.launch = program, graph, entry, launch
        self.placed = f", device={device}" if device else ""
        self.operations = {op.name: op for op in graph.operations}
        self.made: set[str] = set()
        self.native = {s.name: s for s in program.natives}

    def lines(self) -> list[str]:
        """Return the function.

        Raises:
            NotCalled: a native operation cannot be written as a call.
        """
        arguments = {b.position: b.name for b in self.program.buffers if b.role == "argument"}
        count = max([*arguments, *(p for p, _ in self.program.scalars)], default=-1) + 1
        names = [arguments.get(i, f"scalar{i}") for i in range(count)]
        body = [*self._checks(arguments)]
        for step in self.program.steps:
            if isinstance(step, NativeCall):
                body += self._native(step)
            else:
                body += [*self._allocated(step), *self.launch(step)]
        body += [f"{name}_given.copy_({new})" for name, new in self.program.updates]
        outputs = sorted((b for b in self.program.buffers if b.role == "output"), key=lambda b: b.position)
        listed = ", ".join(b.name for b in outputs)
        body.append(f"return {listed}" if len(outputs) == 1 else f"return ({listed})")
        head = [f"def {self.entry}({', '.join(names)}):", "    with torch.no_grad():"]
        return [*head, *(f"        {line}" for line in body)]

    def _checks(self, arguments: dict[int, str]) -> list[str]:
        lines = []
        for name, (position, dim) in self.program.symbols.items():
            lines.append(f"{name} = {arguments[position]}.shape[{dim}]")
        for b in self.program.buffers:
            if b.role == "argument":
                if b.name in dict(self.program.updates):
                    lines.append(f"{b.name}_given = {b.name}")
                lines.append(f"{b.name} = {b.name}.contiguous()")
                shape = "".join(f"{text_of(s)}, " for s in b.shape)
                lines.append(f"if {b.name}.shape != ({shape}) or {b.name}.dtype != torch.{b.dtype}:")
                lines.append(
                    f'    raise NotImplementedError("Unsupported: {b.name} has another shape or dtype")'
                )
        for guard in self.program.guards:
            lines.append(f"if not ({guard}):")
            lines.append(f'    raise NotImplementedError("Unsupported: sizes must satisfy {guard}")')
        for position, value in self.program.scalars:
            lines.append(f"if scalar{position} != {value!r}:")
            lines.append('    raise NotImplementedError("Unsupported: another scalar argument")')
        return lines

    def _allocated(self, step: Kernel | Contraction) -> list[str]:
        lines = []
        for name in touched(step)[1]:
            if name not in self.made:
                b = self.program.buffer(name)
                shape = ", ".join(text_of(s) for s in b.shape)
                comma = "," if len(b.shape) == 1 else ""
                lines.append(f"{name} = torch.empty(({shape}{comma}), dtype=torch.{b.dtype}{self.placed})")
                self.made.add(name)
        return lines

    def _native(self, step: NativeCall) -> list[str]:
        op = self.operations[step.name]
        self.made.add(step.writes)
        if op.op == "getitem":
            source, at = op.args
            assert isinstance(source, Ref)
            lines = []
            if f"{source.name}_all" not in self.made:
                self.made.add(f"{source.name}_all")
                lines.append(f"{_word(source.name)}_all = {self._call(self.operations[source.name])}")
            return [*lines, f"{step.writes} = {_word(source.name)}_all[{at}].contiguous()"]
        return [f"{step.writes} = {self._call(op)}.contiguous()"]

    def _call(self, op: Captured) -> str:
        if op.op == "constant":
            values = dict(op.kwargs).get("value")
            if values is None:
                raise NotCalled("a constant tensor whose values are not kept")
            return f"torch.tensor({values!r}, dtype=torch.{op.dtype}{self.placed}).reshape({op.shape!r})"
        if not op.op.startswith("aten."):
            raise NotCalled(op.op)
        args = [self._argument(a) for a in op.args]
        args += [f"{name}={self._argument(value)}" for name, value in op.kwargs if name != "pin_memory"]
        return f"{op.op}({', '.join(args)})"

    def _argument(self, value: object) -> str:
        match value:
            case Ref(name):
                node = self.graph.values.get(name)
                if node is None:
                    raise NotCalled(f"{name} is several tensors")
                return self._buffer(node)
            case tuple():
                return "[" + ", ".join(map(self._argument, value)) + "]"
            case str() if value in _WORDS:
                return f"torch.{value}"
            case str():
                return repr(value)
            case bool() | None:
                return repr(value)
            case int():
                return text_of(value)
            case Real():
                return value.text
            case float():
                return repr(value) if math.isfinite(value) else f'float("{value}")'
            case _:
                raise NotCalled(f"an argument {value!r}")

    def _buffer(self, node: Node) -> str:
        if node not in self.program.names:
            raise NotCalled(f"{node.name} is not stored")
        return self.program.names[node]


_WORDS = frozenset({
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "strided",
    "contiguous_format", "preserve_format", "channels_last", "channels_last_3d",
})  # fmt: skip
"""Strings that stand for torch's own constants."""


def _word(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
