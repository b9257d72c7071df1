"""One description of an instruction set, from which its manual, assembler and simulator are made."""

import random
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

from ..errors import InputError
from ._operations import KINDS, Kind, Role

PREFIXES = {"s": "scalar", "v": "vector", "m": "tile", "q": "queue"}
"""Classes of registers, and queues, in words."""


@dataclass(frozen=True)
class Semantics:
    """What instructions mean where the instruction sets differ."""

    tail: Literal["kept", "zero"] = "kept"
    """What a vector instruction does to the lanes of its result past the vector length."""
    reduce: Literal["all", "first"] = "all"
    """Which lanes receive the result of a reduction."""
    subtract: Literal["a-b", "b-a"] = "a-b"
    """The direction of subtraction, scalar and vector."""
    divide: Literal["a/b", "b/a"] = "a/b"
    """The direction of division."""
    compare: Literal["a>b", "b>a"] = "a>b"
    """The direction of the comparison."""
    mma: Literal["AB", "ATB", "ABT"] = "AB"
    """Which product a multiplication of tiles adds."""
    wait: Literal["left", "oldest"] = "left"
    """Whether a wait names the transfers that may be left, or how many of the oldest it waits for."""


@dataclass(frozen=True)
class Operation:
    """An operation as one instruction set spells it."""

    kind: Kind
    """What it is."""
    name: str
    """Its mnemonic."""
    roles: tuple[Role, ...]
    """Its operands in the order of its text."""
    opcode: int
    """The number of its encoding, 0 to 255."""
    latency: int
    """Cycles until its result can be read."""
    busy: int
    """Cycles for which its unit takes no other."""


@dataclass(frozen=True)
class Description:
    """An instruction set: names, order of operands, encodings, sizes, costs and meanings."""

    name: str
    """Its name."""
    operations: tuple[Operation, ...]
    """Every instruction, in the order of the manual."""
    registers: dict[str, tuple[str, int]]
    """For each class of register, and for queues, the prefix of their names and their number."""
    lanes: int
    """Lanes of a vector register."""
    tile: int
    """Rows and columns of a tile register."""
    scratch_words: int
    """Words of the scratchpad; a word holds one float32."""
    align: int
    """Words to whose multiple an aligned scratchpad address falls."""
    unit: int
    """How far apart two neighbouring words are in addresses and strides: 1, or 4 for bytes."""
    comment: str
    """What begins a comment."""
    semantics: Semantics
    """What instructions mean."""
    dma_latency: int = 40
    """Cycles before the first word of a transfer."""
    dma_words: int = 4
    """Words that the one channel to memory moves in a cycle."""
    dma_row: int = 1
    """Cycles that each row of a transfer costs in addition to its words."""
    dma_depth: int = 4
    """Transfers of a queue that may be under way; another one waits."""
    branch: int = 2
    """Cycles lost by a branch that is taken."""
    most_instructions: int = 2048
    """The longest program, in instructions."""

    @cached_property
    def by_kind(self) -> dict[str, Operation]:
        """Operations by their canonical name."""
        return {o.kind.name: o for o in self.operations}

    @cached_property
    def by_name(self) -> dict[str, Operation]:
        """Operations by their mnemonic."""
        return {o.name: o for o in self.operations}

    @cached_property
    def by_opcode(self) -> dict[int, Operation]:
        """Operations by the number of their encoding."""
        return {o.opcode: o for o in self.operations}

    def count(self, cls: str) -> int:
        """Return how many registers of a class, or queues, there are."""
        return self.registers[cls][1]

    def register(self, cls: str, number: int) -> str:
        """Return the name of a register.

        Example:
            >>> TESSERA.register("v", 3)
            'v3'
        """
        return f"{self.registers[cls][0]}{number}"


TESSERA = Description(
    name="tessera",
    operations=tuple(
        Operation(kind, kind.name, kind.roles, number + 1, kind.latency, kind.busy)
        for number, kind in enumerate(KINDS.values())
    ),
    registers={"s": ("r", 32), "v": ("v", 16), "m": ("m", 8), "q": ("q", 2)},
    lanes=16,
    tile=8,
    scratch_words=16384,
    align=4,
    unit=1,
    comment=";",
    semantics=Semantics(),
)
"""The tile accelerator of this package, as it was designed."""

_SYLLABLES = (
    "ba",
    "ko",
    "mi",
    "ter",
    "zu",
    "lan",
    "fe",
    "dro",
    "ix",
    "qua",
    "no",
    "sel",
    "vi",
    "gur",
    "ha",
    "pel",
)
_PREFIX_LETTERS = "abcefghjkpruwxyz"


@cache
def generated(seed: int) -> Description:
    """Make up an instruction set: the same machine with other names, orders, sizes, costs and meanings.

    Example:
        >>> generated(7).name, generated(7).lanes == generated(7).lanes
        ('made-7', True)
    """
    draw = random.Random(f"instruction set {seed}")
    names = _names(draw)
    numbers = draw.sample(range(1, 256), len(KINDS))
    last = draw.random() < 0.5
    tile = draw.choice((4, 8, 16))
    operations = [
        Operation(
            kind, names[kind.name], _ordered(kind, last, draw), numbers[place], *_costs(kind, tile, draw)
        )
        for place, kind in enumerate(KINDS.values())
    ]
    draw.shuffle(operations)
    letters = draw.sample(_PREFIX_LETTERS, 4)
    counts = (
        draw.choice((32, 36, 44)),
        draw.choice((14, 18, 24)),
        draw.choice((6, 7, 10)),
        draw.choice((2, 3)),
    )
    return Description(
        name=f"made-{seed}",
        operations=tuple(operations),
        registers={cls: (letter, n) for cls, letter, n in zip("svmq", letters, counts, strict=True)},
        lanes=draw.choice((8, 16, 32)),
        tile=tile,
        scratch_words=16384,
        align=min(tile, draw.choice((2, 4, 8))),
        unit=draw.choice((1, 4)),
        comment=draw.choice(("#", "//", "!")),
        semantics=Semantics(
            draw.choice(("kept", "zero")), draw.choice(("all", "first")), draw.choice(("a-b", "b-a")),
            draw.choice(("a/b", "b/a")), draw.choice(("a>b", "b>a")), draw.choice(("AB", "ATB", "ABT")),
            draw.choice(("left", "oldest")),
        ),
        dma_latency=draw.randint(25, 80),
        dma_words=draw.choice((2, 4, 8)),
        dma_row=draw.randint(1, 3),
        dma_depth=draw.randint(3, 6),
        branch=draw.randint(1, 4),
    )  # fmt: skip


def find_description(name: str) -> Description:
    """Return an instruction set by name: `tessera`, or `made-SEED`.

    Raises:
        InputError: there is none of that name.
    """
    if name == TESSERA.name:
        return TESSERA
    word, _, seed = name.partition("-")
    if word == "made" and seed.isdecimal() and len(seed) <= 9:
        return generated(int(seed))
    raise InputError(
        f"no instruction set is called {name!r}; expected tessera, made-SEED such as made-7, or riscv"
    )


def _names(draw: random.Random) -> dict[str, str]:
    made: list[str] = []
    while len(made) < len(KINDS):
        word = "".join(draw.choices(_SYLLABLES, k=draw.randint(1, 2))) + draw.choice(("", ".a", ".o", ".x"))
        if word not in made and word not in KINDS:
            made.append(word)
    return dict(zip(KINDS, made, strict=True))


def _ordered(kind: Kind, last: bool, draw: random.Random) -> tuple[Role, ...]:
    """Order operands anew: results stand first or last throughout, what is read in any order."""
    results = [r for r in kind.roles if r.access in {"w", "rw"}]
    others = [r for r in kind.roles if r not in results]
    draw.shuffle(others)
    return (*others, *results) if last else (*results, *others)


def _costs(kind: Kind, tile: int, draw: random.Random) -> tuple[int, int]:
    """Draw the latency and the busy time of an operation; those of whole tiles go with the tile's rows."""
    if kind.name in {"mld", "mst", "mma", "mtr"}:
        return kind.latency - TESSERA.tile + tile + draw.randint(0, 3), tile
    latency = kind.latency + draw.randint(-1, 3) if kind.latency > 1 else 1
    busy = max(1, kind.busy + draw.randint(-1, 2)) if kind.busy > 1 else 1
    return latency, busy
