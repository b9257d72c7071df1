"""Calls of a harness, as `host/kept_calls.h` prints them → calls on other values and sizes; what they answer."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

_CALL = re.compile(r"^call (.*?)^\.$", re.DOTALL | re.MULTILINE)
_FROM_HOST = re.compile(r"^from-host (\d+)$", re.MULTILINE)
_ANSWER = re.compile(r"^o [0-9a-f]*$", re.MULTILINE)
_TYPES = {"f": "f4", "d": "f8", "h": "f2"}
_POWERS, _FACTOR, _FEW = 6.0, 1000, 3


@dataclass(frozen=True)
class Argument:
    """An argument of a call."""

    kind: str
    """`s`: a number; `p`: a pointer into memory; `n`: nothing."""
    type: str = "x"
    """`f`, `d`, `h`, `b` (bfloat16), `i`, `u`, `?`, or `x` for what is not read."""
    size: int = 1
    """Bytes of a number, or of an element."""
    const: bool = False
    """Whether the pointer promises to write nothing."""
    memory: int = -1
    """Number of the memory that it points into."""
    offset: int = 0
    """Bytes from its start."""
    value: bytes = b""
    """A number's bytes."""

    @property
    def whole(self) -> int | None:
        """A whole number's value; None of anything else."""
        return (
            int.from_bytes(self.value, "little", signed=self.type == "i")
            if self.kind == "s" and self.type in "iu"
            else None
        )


@dataclass(frozen=True)
class Call:
    """A call, and the device's memory that it was given."""

    name: str
    how: str
    """Whether it is a launch, its grid, block and shared memory."""
    arguments: tuple[Argument, ...]
    memories: tuple[bytes, ...]
    kind: str = "the harness's"
    """How it came about."""

    def element(self, memory: int) -> Argument:
        """Return the first argument that points into a memory."""
        return next(a for a in self.arguments if a.memory == memory)

    def text(self) -> str:
        """Return it as `host/replay.h` reads it."""
        lines = [f"call {self.name} {self.how} {len(self.memories)} {len(self.arguments)}"]
        lines += [f"m {one.hex()}" for one in self.memories]
        for a in self.arguments:
            where = f"p {a.type} {a.size} {int(a.const)} {a.memory} {a.offset}"
            lines.append({"s": f"s {a.type} {a.size} {a.value.hex()}", "p": where}.get(a.kind, "n"))
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Answer:
    """What a call left: memory by memory, and what it returned."""

    memories: tuple[bytes, ...]
    returned: str = ""
    from_host: int = 0
    """Bytes other than zeros that were copied there from the host."""


def calls_in(output: str) -> list[Call]:
    """Read the calls that a program printed.

    Example:
        >>> text = "call f 0 0 0 0 0 0 0 0 1 2\\nm 01000000\\np i 4 1 0 0\\ns i 4 07000000\\no 02000000\\n.\\n"
        >>> (call,) = calls_in(text)
        >>> call.name, call.memories, call.arguments[1].whole, call.text() == text[:text.index("o 02")]
        ('f', (b'\\x01\\x00\\x00\\x00',), 7, True)
    """
    return [_call(found[1].splitlines()) for found in _CALL.finditer(output)]


def _call(lines: Sequence[str]) -> Call:
    name, *how, _, _ = lines[0].split()
    memories = tuple(bytes.fromhex(line[2:]) for line in lines if line.startswith("m "))
    arguments = tuple(_argument(line.split()) for line in lines if line[:2] in ("s ", "p ") or line == "n")
    return Call(name, " ".join(how), arguments, memories)


def _argument(words: Sequence[str]) -> Argument:
    if words[0] == "s":
        return Argument("s", words[1], int(words[2]), value=bytes.fromhex(words[3]))
    if words[0] == "p":
        return Argument("p", words[1], int(words[2]), words[3] == "1", int(words[4]), int(words[5]))
    return Argument("n")


def answers_in(output: str) -> list[Answer]:
    """Read what calls left, until the first that left nothing.

    Example:
        >>> one, other = answers_in("o 00\\nr i 4 07000000\\n.\\nsaid by a program\\n\\no 01\\nfrom-host 1\\n.\\no 0")
        >>> one.memories, one.returned, other.memories, other.from_host
        ((b'\\x00',), 'i 4 07000000', (b'\\x01',), 1)
    """
    found = []
    for part in re.split(r"^\.$", output, flags=re.MULTILINE)[:-1]:
        memories = tuple(bytes.fromhex(line[0][2:]) for line in _ANSWER.finditer(part))
        returned = next((line[2:] for line in part.splitlines() if line.startswith("r ")), "")
        copied = _FROM_HOST.search(part)
        found.append(Answer(memories, returned, int(copied[1]) if copied else 0))
    return found


def others_of(call: Call, draw: random.Random) -> Iterator[Call]:
    """Yield calls like one, on values and sizes that its harness does not have, in turns of their kinds."""
    numbers = np.random.default_rng(draw.getrandbits(64))
    kinds = {
        "elements in another order": _shuffled, "floats of other sizes and signs": _wide,
        "whole numbers of other sizes and signs": _whole, "elements that are no numbers": _special,
    }  # fmt: skip
    while True:
        for kind, change in kinds.items():
            memories = tuple(change(m, call.element(n), numbers) for n, m in enumerate(call.memories))
            yield replace(call, memories=memories, kind=kind)
            smaller = replace(call, arguments=_smaller(call.arguments, draw), kind="smaller sizes")
            if kind != "elements that are no numbers" and smaller.arguments != call.arguments:
                order = kind == "elements in another order"
                yield replace(smaller, memories=memories if order else _outputs_shuffled(call, numbers))


def _outputs_shuffled(call: Call, numbers: np.random.Generator) -> tuple[bytes, ...]:
    """Return a call's memories, what it may write in another order: it may hold the answer already."""
    written = {a.memory for a in call.arguments if a.kind == "p" and not a.const}
    return tuple(
        _shuffled(m, call.element(n), numbers) if n in written else m for n, m in enumerate(call.memories)
    )


def _smaller(arguments: Sequence[Argument], draw: random.Random) -> tuple[Argument, ...]:
    """Let some whole numbers among the arguments be smaller."""
    places = [n for n, a in enumerate(arguments) if a.whole is not None and a.whole > 1 and a.type != "?"]
    chosen = [n for n in places if draw.random() < 0.5] or places[:1]
    made = list(arguments)
    for n in chosen:
        value = draw.randint(1, arguments[n].whole or 1)
        made[n] = replace(arguments[n], value=value.to_bytes(arguments[n].size, "little"))
    return tuple(made)


def _shuffled(memory: bytes, a: Argument, numbers: np.random.Generator) -> bytes:
    count = len(memory) // a.size
    rows = np.frombuffer(memory[: count * a.size], np.uint8).reshape(count, a.size)
    return numbers.permutation(rows).tobytes() + memory[count * a.size :]


def _wide(memory: bytes, a: Argument, numbers: np.random.Generator) -> bytes:
    values = floats_of(memory, a)
    if values is None:
        return _shuffled(memory, a, numbers) if a.type == "x" else memory
    factors = numbers.choice([-1.0, 1.0], values.shape) * 2 ** numbers.uniform(
        -_POWERS, _POWERS, values.shape
    )
    return bytes_of(values * factors, a) + memory[values.size * a.size :]


def _whole(memory: bytes, a: Argument, numbers: np.random.Generator) -> bytes:
    if a.type not in "iu" or a.size > 8:
        return _shuffled(memory, a, numbers) if a.type in "fdhb" else memory
    values = np.frombuffer(memory[: len(memory) // a.size * a.size], f"{a.type}{a.size}")
    limits = np.iinfo(values.dtype)
    most = min(int(np.abs(values.astype(np.float64)).max(initial=0)) * _FACTOR + _FACTOR, int(limits.max))
    made = numbers.integers(max(-most, int(limits.min)), most, values.shape, endpoint=True)
    return made.astype(values.dtype).tobytes() + memory[values.size * a.size :]


def _special(memory: bytes, a: Argument, numbers: np.random.Generator) -> bytes:
    values = floats_of(memory, a)
    if values is None or not values.size:
        return memory
    for value in (np.nan, np.inf, -np.inf)[:_FEW]:
        values[numbers.integers(values.size)] = value
    return bytes_of(values, a) + memory[values.size * a.size :]


def floats_of(memory: bytes, a: Argument) -> npt.NDArray[np.float64] | None:
    """Return a memory's floats; None where it has none.

    Example:
        >>> floats_of(b"\\x80\\x3f\\x00\\xc0", Argument("p", "b", 2)).tolist()
        [1.0, -2.0]
    """
    whole = memory[: len(memory) // a.size * a.size]
    if a.type == "b":
        wide = np.frombuffer(whole, np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64)
    return np.frombuffer(whole, _TYPES[a.type]).astype(np.float64) if a.type in _TYPES else None


def bytes_of(values: npt.NDArray[np.float64], a: Argument) -> bytes:
    """Return numbers as a memory of that type has them."""
    with np.errstate(over="ignore", invalid="ignore"):
        if a.type == "b":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
        return values.astype(_TYPES[a.type]).tobytes()


_CLOSE = {
    "f": (2.0**-18, 2.0**-15),
    "d": (2.0**-44, 2.0**-40),
    "h": (2.0**-12, 2.0**-10),
    "b": (2.0**-9, 2.0**-7),
}
"""By type: how far honest rounding moves a result from another, in root mean square and of an element, over the root
mean square of all; an element may be as far off over itself."""
_FAR = {"f": 2.0**-10, "d": 2.0**-30, "h": 2.0**-7, "b": 2.0**-5}
"""By type: what root mean square no rounding explains."""


def distance(mine: bytes, right: bytes, a: Argument) -> str:
    """Compare what two programs left in one memory.

    Returns:
        `same`: no further apart than honest rounding of the type takes results; `near`: further, and rounding may be
        why; `other`: neither.

    Example:
        >>> one, other = np.float32([1, 2]).tobytes(), np.float32([1, 2.001]).tobytes()
        >>> a = Argument("p", "f", 4)
        >>> distance(one, one, a), distance(one, other, a), distance(one, np.float32([1, 3]).tobytes(), a)
        ('same', 'near', 'other')
    """
    if mine == right:
        return "same"
    found, truth = floats_of(mine, a), floats_of(right, a)
    if found is None or truth is None or found.shape != truth.shape:
        return "other"
    known = np.isfinite(truth)
    if (
        not np.array_equal(found[~known], truth[~known], equal_nan=True)
        or not np.isfinite(found[known]).all()
    ):
        return "other"
    if not known.any():
        return "same"
    off, size = np.abs(found[known] - truth[known]), np.abs(truth[known])
    scale = float(np.sqrt(np.mean(size**2)))
    share = float(np.sqrt(np.mean(off**2))) / scale if scale else np.inf
    close, of_element = _CLOSE[a.type]
    if share <= close and bool((off <= of_element * (size + scale)).all()):
        return "same"
    return "near" if share <= _FAR[a.type] else "other"


def apart(call: Call, answer: Answer, wanted: Answer) -> str:
    """Return how far apart two answers are: `same`, `near`, `other`, or `unlike` where they are no floats."""
    if answer.returned != wanted.returned or len(answer.memories) != len(wanted.memories):
        return "unlike"
    found = {"same"}
    for n, (mine, right) in enumerate(zip(answer.memories, wanted.memories, strict=True)):
        element = call.element(n)
        how = distance(mine, right, element)
        found.add("unlike" if how == "other" and element.type not in "fdhb" else how)
    return next(one for one in ("other", "unlike", "near", "same") if one in found)
