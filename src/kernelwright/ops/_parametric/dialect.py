"""How a language writes the pointwise operators that all languages support."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...languages.vectors import Unprintable


@dataclass(frozen=True)
class Dialect:
    """The texts of one language; `{0}`, `{1}` ... are the operands."""

    name: str
    """The language's name in messages."""
    infix: Mapping[str, str]
    """Operators of two operands."""
    forms: Mapping[str, str]
    """Functions of the first operand."""
    gelu: Mapping[str, str]
    """By `approximate`."""
    powers: Mapping[float, str]
    """By exponent."""
    where: str
    """Condition, then, else."""
    number: Callable[[object], str]
    """Prints a Python number; raises `Unprintable`."""

    def operator(self, op: str, args: Sequence[str | float], kwargs: Mapping[str, object]) -> str:
        """Print one operator over names and numbers; raises `Unprintable`."""
        name = op.split(".")[1] if op.startswith("aten.") else op
        texts = [a if isinstance(a, str) else self.number(a) for a in args[:3] if a is not None]
        if name in self.infix and len(texts) == 2:
            alpha = kwargs.get("alpha", 1)
            right = texts[1] if alpha == 1 else f"{self.number(alpha)} * {texts[1]}"
            return f"({texts[0]} {self.infix[name]} {right})"
        if name == "gelu":
            return self.gelu[str(kwargs.get("approximate", "none"))].format(texts[0])
        if name == "pow" and not isinstance(args[1], str) and args[1] in self.powers:
            return self.powers[args[1]].format(texts[0])
        if name == "where" and len(texts) == 3:
            return self.where.format(*texts)
        if name in self.forms:
            return self.forms[name].format(texts[0])
        raise Unprintable(f"no {self.name} form of {op}")
