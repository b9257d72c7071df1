"""A contraction as C++: for now the plain loops that `as_loops` gives."""

from ..tile import Contraction, Program, as_loops
from ._statements import Body


def print_contraction(step: Contraction, program: Program, lanes: bool) -> list[str]:
    """Print the body of the kernel's function."""
    return Body(program, vector=lanes).print(as_loops(step).body)
