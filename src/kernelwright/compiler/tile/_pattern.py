"""The pattern of a step without its names: steps with the same pattern share one function with other buffers."""

from collections.abc import Hashable
from dataclasses import fields, is_dataclass

from ._program import Program

_NAMES = ("name", "buffer", "axis", "accumulator")
"""Fields of statements and expressions that hold a name of the program's."""


def pattern(step: object, program: Program) -> Hashable:
    """Return a pattern that is equal for two steps that differ in names only, with buffers of equal dtype and shape.

    A step is a kernel, a contraction, or a record of statements that a printer made of one.

    Names are numbered as they come. So `touched` lists the buffers of both in the same order.

    Example:
        >>> from kernelwright.compiler.graph import read
        >>> from kernelwright.compiler.lower import lower
        >>> from kernelwright.tasks import Problem, load_task
        >>> program = lower(read(Problem(load_task("examples/swiglu.py"))))
        >>> pattern(program.steps[0], program) == pattern(program.steps[0], program)
        True
    """
    numbers = dict[str, int]()
    found = _numbered(step, "", numbers)
    held = [
        (numbers[b.name], b.dtype, repr(b.shape), b.role == "row")
        for b in program.buffers
        if b.name in numbers
    ]
    return found, tuple(sorted(held))


def _numbered(value: object, field: str, numbers: dict[str, int]) -> Hashable:
    if is_dataclass(value):
        parts = [f.name for f in fields(value) if f.name != "comment"]
        return type(value).__name__, *(_numbered(getattr(value, part), part, numbers) for part in parts)
    if isinstance(value, tuple):
        return tuple(_numbered(part, field, numbers) for part in value)
    if isinstance(value, str) and field in _NAMES:
        return numbers.setdefault(value, len(numbers))
    return repr(value)  # sizes by their rules, and 0.0 is not -0.0
