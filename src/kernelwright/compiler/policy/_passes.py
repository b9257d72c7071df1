"""Program → the number of passes over its data, as a reader would count."""

from collections.abc import Sequence

from ..graph import product
from ..tile import Contraction, Kernel, Loop, NativeCall, Program, Step, paths, read_by, written
from ._lost import trips


def passes_of(program: Program) -> int:
    """Count the loops over as many elements as the largest argument or output has, or half as many and more.

    A product counts once, and so does a native step if it reads or writes that much.
    """
    sizes = {b.name: int(product(b.shape)) for b in program.buffers}
    least = max((sizes[b.name] for b in program.buffers if b.role in ("argument", "output")), default=0) / 2
    return sum(_passes(s, sizes, least) for s in program.steps if s.name not in program.ahead)


def _passes(step: Step, sizes: dict[str, int], least: float) -> int:
    match step:
        case NativeCall() | Contraction():
            return int(any(sizes.get(name, 0) >= least for name in read_by(step) | written(step)))
        case Kernel():
            return sum(_times(p) >= least for p in paths(step.body) if _is_innermost(p[-1]))


def _is_innermost(loop: Loop) -> bool:
    return not any(isinstance(s, Loop) for s in loop.body)


def _times(path: Sequence[Loop]) -> int:
    times = 1
    for loop in path:
        times *= trips(loop)
    return times
