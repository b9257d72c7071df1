"""`kernelwright execute` on a launch that failed: the smallest grid and arguments that still fail."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..executor import Execution

_SIZE = re.compile(r"(?<=[\[,])\d+(?=[\],])")
_SHAPED = re.compile(r"[\w:]+\[[\d,]+\]")
Launch = Callable[[Sequence[int], Sequence[int], tuple[str, ...]], "Execution"]
"""Executes a grid and a block of arguments as they are written on the command line."""


@dataclass(frozen=True)
class Smallest:
    """The smallest launch that was found to fail."""

    command: str
    """The words that execute it."""
    run: "Execution"
    tries: int


def shrink(kernel: str, grid: Sequence[int], block: Sequence[int], words: tuple[str, ...], failed: "Execution",
           launch: Launch) -> Smallest | None:  # fmt: skip
    """Return a smaller launch that fails in one of the same ways and no other; None where there is none.

    Equal sizes among the arguments stay equal: `float32[1000]` and a `1000` among the arguments are taken for one size.
    """
    from ..executor.shrink import smallest, ways

    known = ways(failed)
    if failed.status in {"deadline", "step-budget"} or not known:
        return None
    shared = sorted({n for w in words for n in _sizes(w) if n > 1}, reverse=True)
    start = (*shared, *grid, *block)

    def launched(sizes: Sequence[int], given: tuple[str, ...]) -> Any:
        swapped = tuple(_swapped(w, dict(zip(shared, sizes, strict=False))) for w in given)
        shape = sizes[len(shared) :]
        return launch(shape[: len(grid)], shape[len(grid) :], swapped), swapped, shape

    def fails(sizes: Sequence[int], given: tuple[str, ...] = words) -> bool:
        try:
            now = ways(launched(sizes, given)[0])
        except InputError:
            return False
        return bool(now) and now <= known

    best, tries = smallest(start, fails)
    given = words
    for n, word in enumerate(words):
        if _SHAPED.fullmatch(word) and ":" not in word:
            zeros = (*given[:n], f"zeros:{word}", *given[n + 1 :])
            tries += 1
            given = zeros if fails(best, zeros) else given
    if best == start and given == words:
        return None
    run, swapped, shape = launched(best, given)
    numbers = [",".join(map(str, s)) for s in (shape[: len(grid)], shape[len(grid) :])]
    command = ["kernelwright", "execute", kernel, *swapped, "--grid", numbers[0], "--block", numbers[1]]
    return Smallest(shlex.join(command), run, tries)


def _sizes(word: str) -> list[int]:
    if _SHAPED.fullmatch(word):
        return [int(n) for n in _SIZE.findall(word)]
    return [int(word)] if word.isdigit() else []


def _swapped(word: str, sizes: dict[int, int]) -> str:
    if _SHAPED.fullmatch(word):
        return _SIZE.sub(lambda found: str(sizes.get(int(found[0]), int(found[0]))), word)
    return str(sizes.get(int(word), int(word))) if word.isdigit() else word
