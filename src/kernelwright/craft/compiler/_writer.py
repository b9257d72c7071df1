"""Writes assembly of any description: by canonical operations, whatever an instruction set calls and means by them."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import InputError
from .._description import Description


class Writer:
    """Lines of assembly, and which registers are free."""

    def __init__(self, description: Description, arguments: int) -> None:
        self.d = description
        """The instruction set."""
        self.lines: list[str] = []
        """The text so far."""
        self._free = {
            "s": list(range(description.count("s") - 1, arguments - 1, -1)),
            "v": list(range(description.count("v") - 1, -1, -1)),
            "m": list(range(description.count("m") - 1, -1, -1)),
        }
        self._labels = 0

    def text(self) -> str:
        """Return the program."""
        return "\n".join(self.lines) + "\n"

    def note(self, words: str) -> None:
        """Write a comment."""
        self.lines.append(f"{self.d.comment} {words}")

    def op(self, kind: str, **values: int | float | str) -> None:
        """Write one operation; operands by role, registers by number."""
        operation = self.d.by_kind[kind]
        words = []
        for role in operation.roles:
            value = values[role.name]
            words.append(
                self.d.register(role.cls, int(value)) if role.cls in self.d.registers else str(value)
            )
        self.lines.append(f"  {operation.name} {', '.join(words)}".rstrip())

    def label(self) -> str:
        """Return a new label."""
        self._labels += 1
        return f"L{self._labels}"

    def place(self, label: str) -> None:
        """Put a label here."""
        self.lines.append(f"{label}:")

    def take(self, cls: str) -> int:
        """Take a register that nobody uses."""
        if not self._free[cls]:
            raise InputError(
                f"{self.d.name} has too few registers for this plan; choose one that unrolls less"
            )
        return self._free[cls].pop()

    def give(self, cls: str, *numbers: int) -> None:
        """Give registers back."""
        self._free[cls] += numbers

    def left(self, cls: str) -> int:
        """Return how many registers of a class are free."""
        return len(self._free[cls])

    @contextmanager
    def registers(self, cls: str, count: int) -> Iterator[list[int]]:
        """Take registers for a block."""
        taken = [self.take(cls) for _ in range(count)]
        try:
            yield taken
        finally:
            self.give(cls, *taken)

    def li(self, value: int) -> int:
        """Take a scalar register that holds a number."""
        register = self.take("s")
        self.op("li", d=register, i=value)
        return register

    def move(self, d: int, a: int, plus: int = 0) -> None:
        """Copy a scalar, with a number added."""
        self.op("addi", d=d, a=a, i=plus)

    def minus(self, d: int, a: int, b: int) -> None:
        """Subtract scalars: a - b, whatever the direction here."""
        a, b = (a, b) if self.d.semantics.subtract == "a-b" else (b, a)
        self.op("sub", d=d, a=a, b=b)

    def binary(self, op: str, d: int, a: int, b: int) -> None:
        """Combine vectors: a op b, whatever the direction here."""
        s = self.d.semantics
        turned = (op, getattr(s, {"sub": "subtract", "div": "divide", "gt": "compare"}.get(op, "tail"))) in {
            ("sub", "b-a"), ("div", "b/a"), ("gt", "b>a"),
        }  # fmt: skip
        self.op(f"v{op}", d=d, a=b if turned else a, b=a if turned else b)

    def scaled(self, words: int) -> int:
        """Take a scalar register with a number of words in address units, from one with words."""
        register = self.take("s")
        if self.d.unit == 1:
            self.move(register, words)
        else:
            self.op("li", d=register, i=self.d.unit)
            self.op("mul", d=register, a=register, b=words)
        return register

    def wait_all(self, queue: int = 0) -> None:
        """Wait for every transfer of a queue."""
        self.op("dwait", q=queue, i=0)

    @contextmanager
    def count(self, limit: int, step: int = 1) -> Iterator[int]:
        """Loop a scalar register from 0 in steps while it is below `limit`, at least once."""
        counter, top = self.li(0), self.label()
        self.place(top)
        yield counter
        self.op("addi", d=counter, a=counter, i=step)
        self.op("blt", a=counter, b=limit, l=top)
        self.give("s", counter)
