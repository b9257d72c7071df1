"""Program, inputs → outputs, loop by loop in Python: the reference interpreter of the tile form, for small sizes."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..graph import text_of
from ._expression import (
    MONOIDS,
    Arith,
    Call,
    Expression,
    Extent,
    Guard,
    Literal,
    Load,
    Position,
    Result,
    Variable,
)  # fmt: skip
from ._plain import as_loops
from ._program import Begin, Contraction, Kernel, Let, Loop, Program, Row, Statement, Store, Update


def run_program(program: Program, arguments: Mapping[int, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Run a program in double precision; returns its outputs, flattened by position.

    Covers: kernels and contractions; every schedule attribute is ignored.
    Does not cover: native steps (`ValueError`).

    Args:
        program: What to run.
        arguments: Argument tensors by position in the call.
    """
    return _Machine(program, arguments).run()


class _Machine:
    def __init__(self, program: Program, arguments: Mapping[int, torch.Tensor]) -> None:
        self.program = program
        self.scope: dict[str, Any] = {}
        self.sizes = {n: arguments[p].shape[d] for n, (p, d) in program.symbols.items()}
        self.shapes = {b.name: [self.size(s) for s in b.shape] for b in program.buffers}
        self.memory: dict[str, list[Any]] = {}
        for b in program.buffers:
            count = math.prod(self.shapes[b.name])
            given = arguments.get(b.position) if b.role == "argument" else None
            self.memory[b.name] = [math.nan] * count if given is None else given.flatten().tolist()
        self.monoids: dict[str, str] = {}

    def size(self, size: int) -> int:
        return int(eval(text_of(size), {"__builtins__": {}}, {**self.sizes, **self.scope}))

    def run(self) -> tuple[torch.Tensor, ...]:
        for step in self.program.steps:
            kernel = as_loops(step) if isinstance(step, Contraction) else step
            if not isinstance(kernel, Kernel):
                raise ValueError(f"step {step.name!r} is native")
            self.block(kernel.body)
        outputs = sorted((b for b in self.program.buffers if b.role == "output"), key=lambda b: b.position)
        return tuple(
            torch.tensor(self.memory[b.name], dtype=torch.float64).reshape(self.shapes[b.name])
            for b in outputs
        )

    def block(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case Let(name, value):
                    self.scope[name] = self.value(value)
                case Store():
                    self.store(statement)
                case Begin(name, monoid, kind):
                    self.monoids[name] = monoid
                    for part, start in MONOIDS[monoid].parts.items():
                        endless = kind == "int64" and start in (math.inf, -math.inf)
                        self.scope[f"{name}.{part}"] = _MOST * (1 if start > 0 else -1) if endless else start
                case Update(name, value, position):
                    self.update(name, self.value(value), self.value(position))
                case Row(buffer):
                    self.memory[buffer] = [math.nan] * len(self.memory[buffer])
                case Loop(axis, end, inner, begin):
                    for i in range(self.value(begin), self.value(end)):
                        self.scope[f"@{axis}"] = i
                        self.block(inner)
                case Contraction():
                    self.block(as_loops(statement).body)

    def store(self, statement: Store) -> None:
        at = self.place(statement.buffer, statement.index)
        memory, value = self.memory[statement.buffer], self.value(statement.value)
        old = memory[at]
        match statement.combine:
            case "sum":
                value = old + value
            case "prod":
                value = old * value
            case "max" | "min":
                value = max(old, value) if statement.combine == "max" else min(old, value)
        memory[at] = value

    def place(self, buffer: str, index: Sequence[Expression]) -> int:
        found = 0
        for at, size in zip(index, self.shapes[buffer], strict=True):
            found = found * size + self.value(at)
        if not 0 <= found < len(self.memory[buffer]):
            raise IndexError(f"{buffer}: element {found} of {len(self.memory[buffer])}")
        return found

    def update(self, name: str, value: Any, position: Any) -> None:
        monoid = MONOIDS[self.monoids[name]]
        state = {part: Literal(self.scope[f"{name}.{part}"]) for part in monoid.parts}
        new = monoid.update(state, Literal(value), Literal(position, "int64"))
        values = {part: self.value(e) for part, e in new.items()}
        self.scope.update({f"{name}.{part}": new for part, new in values.items()})

    def value(self, e: Expression) -> Any:
        match e:
            case Literal(value):
                return value
            case Extent(size):
                return self.size(size)
            case Position(axis):
                return self.scope[f"@{axis}"]
            case Variable(name):
                return self.scope[name]
            case Result(name, part):
                return self.scope[f"{name}.{part}"]
            case Arith(sign, left, right):
                a, b = self.value(left), self.value(right)
                return _ARITH[sign](a, b)
            case Load(buffer, index):
                return self.memory[buffer][self.place(buffer, index)]
            case Guard(condition, value, other):
                return self.value(value if self.value(condition) else other)
            case Call():
                return self.call(e)

    def call(self, e: Call) -> Any:
        from ..graph import POINTWISE

        args = [None if a is None else self.value(a) for a in e.args]
        if e.op == "cast":
            return _CASTS.get(e.kind, float)(args[0])
        if e.op == "where":
            return args[1] if args[0] else args[2]
        tensors = [a if a is None or i in _PLAIN.get(e.op, ()) else _tensor(a) for i, a in enumerate(args)]
        found = POINTWISE[e.op](*tensors, **dict(e.options)).item()
        return bool(found) if e.kind == "bool" else found


_MOST = (1 << 63) - 1
_PLAIN = {"elu": (1, 2, 3), "leaky_relu": (1,), "hardtanh": (1, 2), "softplus": (1, 2), "pow": (1,)}
_ARITH: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b, "min": min, "max": max,
}  # fmt: skip


def _tensor(value: Any) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.tensor(value)


def _whole(value: Any) -> int:
    return int(value) if math.isfinite(value) else 0


_CASTS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int64": _whole}
