"""A program that differs from the original on calls that no harness makes → what shows that the program is at fault.

Such a call may be one that the problem does not allow, so that a difference alone refuses nothing. These do:

- It answers the same, whatever it is given, where the original's answers are all different.
- It agrees at no size but the harness's, though others keep what the harness's sizes divide by. Where a call has one
  whole number alone, since several may belong together.
- It agrees on whole numbers as long as they fit another type with fewer digits, and on none beyond.
- One number of its input was changed, a few of the original's results follow, and its own are far from those. So no
  order, sum or sign that several numbers keep together is given up, and the original has an answer.
- What it leaves was copied from the host, and no kernel of it wrote that, where the original's kernels did.

Covers: calls that programs answer, of memory that holds numbers.
Does not cover: programs that are at fault on some inputs alone in another way; those stay undecided.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ._kept_calls import Answer, Call, apart, bytes_of, floats_of

_WHOLE, _SIZES = "whole numbers of other sizes and signs", "smaller sizes"
VALUES = frozenset({"elements in another order", "floats of other sizes and signs", _WHOLE})
_LEAST, _LEAST_NEAR, _ELEMENTS, _LOCAL, _FAR = 4, 3, 8, 4, 2.0**-5
_FACTORS = (-1.0, 32.0, -8.0) * 3
"""By which one number is changed."""
_BITS = (11, 15, 16, 24)
"""Digits of float16, of 16-bit whole numbers with and without a sign, and of float32."""
_EXTREMES = re.compile(r"\b(?:max|min)(?:\.\w+)*\.(?:f16|f16x2|bf16|bf16x2|f32|f64)\b")
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Replay:
    """A program that answers calls."""

    answers: Callable[[Sequence[Call]], list[Answer]]
    """Returns its answers, until the first call that it does not answer."""
    kernels: Callable[[], Sequence[str]]
    """Returns its kernels as PTX."""


@dataclass(frozen=True)
class Compared:
    """A call that the harness does not make, and both answers."""

    call: Call
    wanted: Answer
    """The original's."""
    got: Answer | None
    """The program's; None if it gave none."""

    @property
    def agrees(self) -> bool:
        """Whether they are the same, but for rounding."""
        return self.got is not None and apart(self.call, self.got, self.wanted) == "same"


def fault_on_others(
    mine: Replay,
    right: Replay,
    calls: Sequence[Call],
    made: Sequence[Compared],
    numbers: np.random.Generator,
) -> str:
    """Say what shows that a program is at fault on calls that its harness does not make; empty if nothing does.

    Args:
        mine: The program.
        right: The original.
        calls: The harness's.
        made: Others, on some of which the two differ.
        numbers: Draws further ones.
    """
    least = min(calls, key=lambda call: sum(map(len, call.memories)))
    return (
        by_heart(made)
        or _at_no_other_size(mine, right, calls, made)
        or _beyond_digits(mine, right, least, made, numbers)
        or _one_number_changed(mine, right, least, numbers)
    )


def by_heart(made: Sequence[Compared]) -> str:
    """Say that a program answers the same whatever it is given; empty if it does not."""
    changed = [one for one in made if one.call.kind in VALUES and one.got and _alike(one.got, one.wanted)]
    changed = [one for one in changed if _asks(one.call) == _asks(changed[0].call)]
    near = sum(one.call.kind != _WHOLE for one in changed)
    if len(changed) < _LEAST or near < _LEAST_NEAR:
        return ""
    places = _places([(one.call, one.wanted) for one in changed])
    mine, right = (
        {b"".join(_at(changed[0].call, answer, places)) for answer in answers}
        for answers in ([one.got for one in changed if one.got], [one.wanted for one in changed])
    )
    if sum(int(where.sum()) for where in places.values()) < _ELEMENTS or not _finite(changed[0], places):
        return ""
    alike = len(mine) == 1 and len(right) == len(changed)
    return (
        f"it answers the same to {len(changed)} inputs to which the original gives {len(changed)} answers"
        if alike
        else ""
    )


def _finite(one: Compared, places: dict[int, npt.NDArray[np.bool_]]) -> bool:
    if one.got is None:
        return False
    values = [floats_of(one.got.memories[n], one.call.element(n)) for n in places]
    return all(
        v is None or bool(np.isfinite(v[where[: v.size]]).all())
        for v, where in zip(values, places.values(), strict=True)
    )


def _elements(memory: bytes, size: int) -> Bytes:
    return np.frombuffer(memory[: len(memory) // size * size], np.uint8).reshape(-1, size)


def _places(answers: Sequence[tuple[Call, Answer]]) -> dict[int, npt.NDArray[np.bool_]]:
    """Return by memory which elements the original writes anything new to."""
    call = answers[0][0]
    found = {}
    for n in range(len(call.memories)):
        size = call.element(n).size
        pairs = [(_elements(c.memories[n], size), _elements(a.memories[n], size)) for c, a in answers]
        written = np.logical_or.reduce([(given != left).any(axis=1) for given, left in pairs])
        if written.any():
            found[n] = written
    return found


def _at(call: Call, answer: Answer, places: dict[int, npt.NDArray[np.bool_]]) -> Iterator[bytes]:
    for n, where in places.items():
        yield _elements(answer.memories[n], call.element(n).size)[where].tobytes()


def _alike(one: Answer, other: Answer) -> bool:
    """Tell whether two answers have as many memories, of the same sizes: a program may print what looks like more."""
    return [len(m) for m in one.memories] == [len(m) for m in other.memories]


def _asks(call: Call) -> tuple[object, ...]:
    """Return what calls have in common that differ in their values alone."""
    return call.name, call.how, call.arguments, tuple(map(len, call.memories))


def writes_nothing(call: Call, answer: Answer, wanted: Answer) -> bool:
    """Tell whether all that the original changes is as it was given."""
    if not _alike(answer, wanted):
        return False
    places = _places([(call, wanted)])
    kept = zip(_at(call, answer, places), _at(call, Answer(call.memories), places), strict=True)
    return bool(places) and all(mine == given for mine, given in kept)


def copied_from_host(calls: Sequence[Call], answers: Sequence[Answer], truth: Sequence[Answer]) -> str:
    """Say that a program's answers to its harness's calls come from the host; empty if they do not, or not all."""
    copied = 0
    for call, answer, wanted in zip(calls, answers, truth, strict=True):
        if not _alike(answer, wanted):
            return ""
        left = sum(sum(map(bool, memory)) for memory in _at(call, answer, _places([(call, wanted)])))
        if wanted.from_host or not left or 2 * answer.from_host < left:
            return ""
        copied += answer.from_host
    return f"{copied} bytes of its answers were copied from the host, where the original's kernels write them"


def _at_no_other_size(mine: Replay, right: Replay, calls: Sequence[Call], made: Sequence[Compared]) -> str:
    """Say that a program agrees at no size but its harness's."""
    smaller = [one for one in made if one.call.kind == _SIZES]
    if not smaller or any(one.agrees for one in smaller):
        return ""
    tried = _compared(mine, right, [one for call in calls[:1] for one in _sizes_like(call, calls)])
    if len(tried) < _LEAST or any(one.agrees for one in tried):
        return ""
    sizes = ", ".join(str(_sizes(one.call)[0]) for one in tried)
    return f"it agrees with the original at none of the sizes {sizes}, which its harness does not use"


def _sizes(call: Call) -> list[int]:
    return [a.whole for a in call.arguments if a.whole is not None and a.whole > 1]


def _sizes_like(call: Call, calls: Sequence[Call]) -> Iterator[Call]:
    """Yield a call at smaller sizes that keep what its size divides by, where it has one size.

    Example:
        >>> from kernelwright.suites._kept_calls import Argument
        >>> n = Argument("s", "i", 4, value=(100).to_bytes(4, "little"))
        >>> [one.arguments[0].whole for one in _sizes_like(Call("f", "", (n,), ()), [])]
        [48, 24, 72, 32, 96, 12, 60]
    """
    if len(_sizes(call)) != 1:
        return
    (size,) = _sizes(call)
    step = min(size & -size, max(size // 8, 1), 256)
    used = {one for other in calls for one in _sizes(other)}
    near = (size // 2, size // 4, 3 * size // 4, size // 3, size - step, size // 8, 5 * size // 8)
    for other in dict.fromkeys(one // step * step for one in near):
        if 0 < other < size and other not in used:
            arguments = [
                replace(a, value=other.to_bytes(a.size, "little")) if a.whole == size else a
                for a in call.arguments
            ]
            yield replace(call, arguments=tuple(arguments), kind=_SIZES)


def _compared(mine: Replay, right: Replay, calls: Sequence[Call]) -> list[Compared]:
    """Return both answers to calls that both answer, as far as the original's are not what was given."""
    wanted = right.answers(calls)
    got = mine.answers(calls[: len(wanted)])
    return [
        Compared(call, one, other)
        for call, one, other in zip(calls, wanted, got, strict=False)
        if one.memories != call.memories and _alike(one, other)
    ]


def _beyond_digits(
    mine: Replay, right: Replay, call: Call, made: Sequence[Compared], numbers: np.random.Generator
) -> str:
    """Say at which number of bits a program's whole numbers end, if all that is below agrees and all above differs."""
    if all(one.agrees for one in made if one.call.kind == _WHOLE):
        return ""
    for bits in _BITS:
        asked = [_whole_within(call, bits, above, numbers) for above in (False, True) for _ in range(3)]
        found = _compared(mine, right, asked)
        if len(found) == len(asked) and [one.agrees for one in found] == [True] * 3 + [False] * 3:
            return (
                f"it agrees on whole numbers below 2^{bits} and on none beyond, as if they had fewer digits"
            )
    return ""


def _whole_within(call: Call, bits: int, above: bool, numbers: np.random.Generator) -> Call:
    """Let whole numbers be drawn below a power of two, or between that and the next."""
    memories = list(call.memories)
    for n, memory in enumerate(memories):
        a = call.element(n)
        if a.type not in "iu" or a.size not in (4, 8):
            continue
        count = len(memory) // a.size
        low, high = (1 << bits, 2 << bits) if above else (0, 1 << bits)
        values = numbers.integers(low, high, count) | (1 if above else 0)
        if a.type == "i" and bits != 16:
            values = values * numbers.choice([-1, 1], count)
        memories[n] = values.astype(f"{a.type}{a.size}").tobytes() + memory[count * a.size :]
    return replace(call, memories=tuple(memories), kind=_WHOLE)


def _one_number_changed(mine: Replay, right: Replay, call: Call, numbers: np.random.Generator) -> str:
    """Say what a program makes of one changed number, if the original makes something far from that."""
    base = right.answers([call])
    if not base:
        return ""
    for n, memory in enumerate(call.memories):
        values = floats_of(memory, call.element(n))
        if values is None or not values.size or base[0].memories[n] != memory:
            continue
        for special in (False, True):
            asked = [_changed(call, n, (np.nan if special else by), numbers) for by in _FACTORS]
            found = _compared(mine, right, asked)
            told = [said for one in found if (said := _far(one, base[0], special))]
            if len(told) > 1 and not (special and any(map(has_extremes, mine.kernels()))):
                return told[0]
    return ""


def _changed(call: Call, n: int, by: float, numbers: np.random.Generator) -> Call:
    """Multiply one number of a memory."""
    a = call.element(n)
    values = floats_of(call.memories[n], a)
    made = np.zeros(0) if values is None else values.copy()
    at = int(numbers.integers(made.size))
    kept, made[at] = made[at], (made[at] or 1.0) * by
    memories = list(call.memories)
    memories[n] = bytes_of(made, a) + memories[n][made.size * a.size :]
    kind = f"{'no number' if np.isnan(by) else f'{made[at]:.4g}'} in the place of {kept:.4g}"
    return replace(call, memories=tuple(memories), kind=kind)


def _far(one: Compared, base: Answer, special: bool) -> str:
    """Say what a program leaves where few of the original's results follow a changed number; empty if it is near."""
    for n, (wanted, before) in enumerate(zip(one.wanted.memories, base.memories, strict=True)):
        a = one.call.element(n)
        truth, got = floats_of(wanted, a), floats_of(one.got.memories[n], a) if one.got else None
        if truth is None or got is None or one.call.memories[n] == wanted:
            continue
        places = np.flatnonzero((_elements(wanted, a.size) != _elements(before, a.size)).any(axis=1))
        if not 0 < places.size <= _LOCAL:
            continue
        scale = float(np.sqrt(np.nanmean(np.where(np.isfinite(truth), truth, np.nan) ** 2)))
        for at in map(int, places):
            if _is_far(got[at], truth[at], scale, special):
                return (
                    f"it leaves {got[at]:.4g} where the original leaves {truth[at]:.4g}, of {one.call.kind}"
                )
    return ""


def _is_far(got: float, truth: float, scale: float, special: bool) -> bool:
    if special:
        return bool(np.isnan(truth) and np.isfinite(got))
    if not np.isfinite(truth):
        return False
    return not abs(got - truth) <= _FAR * max(abs(truth), scale)


def has_extremes(ptx: str) -> bool:
    """Tell whether kernels take greatest or least numbers, which leave out what is no number.

    Example:
        >>> has_extremes("max.f32 %f1, %f2, %f3;"), has_extremes("setp.nan.f32 %p1, %f1, %f1;")
        (True, False)
    """
    return _EXTREMES.search(ptx) is not None
