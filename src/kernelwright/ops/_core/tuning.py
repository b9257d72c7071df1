"""Tuning: the number of a template that a call gets, by its shape, from a table or from a short trial of the call.

A number decides how much lies in cache at once, or among how many threads work is shared; results are the same bit by
bit for each. Where a processor has a tile unit one decides what multiplies, and sums of bfloat16 are in another order.
Tables are by kind of processor: what vectors it has, and how large a second cache. One ships with the library,
`ops/_templates/tuned/KIND.json`; what trials found is kept in the user's cache.

A shape that no table knows is tried on its third call, if a call takes a fifth of a millisecond or more: every number
is timed in turn on the call's own arguments, for at most two seconds. KERNELWRIGHT_TUNING=table makes no trial, `off`
leaves every kernel to its own numbers.
"""

import contextlib
import functools
import json
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...config import Settings
from .._templates import AMX, NUMBERS, TABLES

Table = dict[str, dict[str, int]]
"""By op, then by shape: the number."""
Run = Callable[[int], object]
"""Runs a call with a number; -1: with the kernel's own."""
BUDGET_S = 2.0
"""Seconds of a trial at most."""
LEAST_S = 2e-4
"""Seconds of a call below which none is made."""
CALLS = 3
"""The call of a shape on which it is tried."""
ROUNDS, FEWEST = 15, 3
"""Rounds of a trial, and the fewest that decide."""
GAIN = 0.97
"""Share of the own number's time that another may take at most to be chosen, in three rounds of four."""
OWN = -1
"""The kernel's own number."""


@dataclass(frozen=True)
class Choice:
    """What a call gets, and why."""

    number: int
    """-1: the kernel's own."""
    why: str
    """Where it comes from."""
    settled: bool = True
    """Whether later calls of the shape get the same."""


NONE = Choice(OWN, "this processor leaves no choice")


class Tuning:
    """The numbers of one op.

    Args:
        template: The template or header whose number it is, one of `NUMBERS`.
        sizes: Takes the op's arguments and returns the sizes that matter.

    Example:
        >>> tuning = Tuning("stream_reduce", lambda x, c: (len(x), len(c), x.shape[1]))
        >>> tuning.shape((torch.ones(1000, 3), torch.ones(9, 3))).split()[:-1]
        ['float32', '10', '3', '2']
    """

    def __init__(self, template: str, sizes: Callable[..., Sequence[int]]) -> None:
        self.template, self.of, self._sizes = template, NUMBERS[template], sizes
        self._chosen: dict[str, Choice] = {}
        self._calls: dict[str, int] = {}
        self._trial = threading.Lock()

    def chooses(self, arguments: Sequence[Any]) -> bool:
        """Tell whether this processor has what the number is a choice of, for such a call."""
        if not self.of.needs:
            return True
        first = next(a for a in arguments if isinstance(a, torch.Tensor))
        return _has(self.of.needs) and str(first.dtype).removeprefix("torch.") in self.of.dtypes

    def told(self, choice: Choice, arguments: Sequence[Any]) -> str:
        """Say what a call gets, and how far what it gets is proven where that is not by a run."""
        said = ""
        if self.chooses(arguments):
            number = "its own number" if choice.number == OWN else f"{choice.number}"
            said = f"; {number} of {self.of.what}: {choice.why}"
        if self.of.tiles and _has(AMX) and (said or not self.of.needs):
            said += (
                f"; {self.of.tiles}: by AMX's tiles, compiled and modelled, run on no machine that has them"
            )
        return said

    def shape(self, arguments: Sequence[Any]) -> str:
        """Return the shape of a call as tables have it: dtype, sizes as rounded powers of two, one thread or many."""
        first = next(a for a in arguments if isinstance(a, torch.Tensor))
        powers = (str(round(math.log2(max(1, size)))) for size in self._sizes(*arguments))
        threads = "t1" if torch.get_num_threads() == 1 else "tn"
        return " ".join((str(first.dtype).removeprefix("torch."), *powers, threads))

    def plan(self, op: str, arguments: Sequence[Any]) -> Choice:
        """Return what a call of this shape would get now."""
        if not self.chooses(arguments):
            return NONE
        return self._known(op, self.shape(arguments)) or Choice(OWN, "no table knows the shape", False)

    def call(self, op: str, arguments: Sequence[Any], run: Run) -> Choice:
        """Run a call with the number of its shape, and try others where that is due; return what it got."""
        if not self.chooses(arguments):
            run(OWN)
            return NONE
        shape = self.shape(arguments)
        choice = self._known(op, shape)
        if choice is not None:
            run(choice.number)
            return choice
        begun = time.perf_counter()
        run(OWN)
        took = time.perf_counter() - begun
        calls = self._calls[shape] = self._calls.get(shape, 0) + 1
        if took < LEAST_S:
            return self._settle(shape, Choice(OWN, "calls are short"))
        if calls < CALLS or not self._trial.acquire(blocking=False):
            return Choice(OWN, f"the shape is tried on its call {CALLS}", False)
        try:
            number, gain = trial(run, self.of.values)
        finally:
            self._trial.release()
        if number is None:
            return self._settle(shape, Choice(OWN, f"too long for a trial of {BUDGET_S:g} s"))
        keep(op, shape, number)
        return self._settle(shape, Choice(number, f"by a trial of this call, {gain:.2f} times as fast"))

    def _known(self, op: str, shape: str) -> Choice | None:
        known = self._chosen.get(shape)
        if known is not None:
            return known
        mode = Settings.from_environment().tuning
        if mode == "off":
            return Choice(OWN, "tuning is switched off")
        if self.of.threads and shape.endswith("t1"):
            return self._settle(shape, Choice(OWN, "one thread has no choice"))
        for name, table in (("what was tried here", learned()), (f"the table of {kind()}", shipped(kind()))):
            found = nearest(table.get(op, {}), shape)
            if found is not None and found in (OWN, *self.of.values):
                return self._settle(shape, Choice(found, f"by {name}"))
        return Choice(OWN, "no table knows the shape") if mode == "table" else None

    def _settle(self, shape: str, choice: Choice) -> Choice:
        self._chosen[shape] = choice
        return choice

    def forget(self) -> None:
        """Forget what was chosen; tables stay."""
        self._chosen.clear()
        self._calls.clear()


def trial(
    run: Run,
    values: Sequence[int],
    *,
    budget_s: float = BUDGET_S,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[int | None, float]:
    """Time a call with each number in turn; return the best and its gain over the own one.

    Another than the own one must be 3 % faster or more in three rounds of four. None where too few fit the budget.

    Example:
        >>> now = [0.0]
        >>> def run(number):
        ...     now[0] += 0.01 if number == 8 else 0.02
        >>> trial(run, (4, 8), clock=lambda: now[0])
        (8, 2.0)
    """
    times: dict[int, list[float]] = {number: [] for number in (OWN, *values)}
    begun, rounds = clock(), 0
    while rounds < ROUNDS:
        for number, took in times.items():
            before = clock()
            run(number)
            after = clock()
            took.append(after - before)
            left = budget_s - (after - begun)
            if left < 1.5 * (after - before):
                break
        else:
            rounds += 1
            continue
        break
    if rounds < FEWEST:
        return None, 1.0
    best = min(times, key=lambda number: statistics.median(times[number][:rounds]))
    shares = sorted(mine / own for mine, own in zip(times[best][:rounds], times[OWN][:rounds], strict=True))
    faster = shares[3 * rounds // 4] <= GAIN
    return (best, 1 / statistics.median(shares)) if faster else (OWN, 1.0)


def nearest(known: Mapping[str, int], shape: str) -> int | None:
    """Return the number of the nearest known shape: each size at most twice or half, dtype and threads the same.

    Example:
        >>> nearest({"float32 10 3 t1": 5}, "float32 11 3 t1"), nearest({"float32 10 3 t1": 5}, "float32 12 3 t1")
        (5, None)
    """
    if shape in known:
        return known[shape]
    kind, *sizes, threads = shape.split()
    best, least = None, math.inf
    for other, number in known.items():
        its_kind, *its_sizes, its_threads = other.split()
        if (its_kind, its_threads, len(its_sizes)) != (kind, threads, len(sizes)):
            continue
        apart = [abs(int(a) - int(b)) for a, b in zip(sizes, its_sizes, strict=True)]
        if max(apart, default=0) <= 1 and sum(apart) < least:
            best, least = number, sum(apart)
    return best


@functools.cache
def _has(units: tuple[str, ...]) -> bool:
    from ...devices import detect

    return set(units) <= set(detect("cpu").vector_units)


@functools.cache
def kind() -> str:
    """Return the kind of this processor: its vectors and the size of its second cache, `avx2-512k`."""
    from ...devices import detect

    device = detect("cpu")
    vectors = next(
        (unit for unit in ("avx512", "avx2", "sve", "neon") if unit in device.vector_units), "plain"
    )
    second = next((cache.size_bytes >> 10 for cache in device.caches if cache.level == "l2"), 0)
    return f"{vectors}-{second}k"


@functools.cache
def shipped(kind: str) -> Table:
    """Return the table of a kind of processor that came with the library; empty if none did.

    Example:
        >>> shipped("abacus-0k")
        {}
    """
    return _read(TABLES / f"{kind}.json")


def learned() -> Table:
    """Return what trials found on this machine."""
    return _read(_learned_file())


def keep(op: str, shape: str, number: int) -> None:
    """Keep what a trial found; a cache that cannot be written is no error."""
    file = _learned_file()
    table = _read(file)
    table.setdefault(op, {})[shape] = number
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".json")
        with os.fdopen(handle, "w") as to:
            json.dump(table, to, indent=1, sort_keys=True)
        Path(name).replace(file)


def _learned_file() -> Path:
    return Settings.from_environment().cache / "tuned" / f"{kind()}.json"


def _read(file: Path) -> Table:
    """Read a table; what is none is empty."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {op: shapes for op, shapes in found.items() if isinstance(shapes, dict) and _is_table(shapes)}


def _is_table(shapes: dict[str, Any]) -> bool:
    return all(type(number) is int and len(shape.split()) > 1 for shape, number in shapes.items())
