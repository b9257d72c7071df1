"""A program that differs from the original on inputs that no test has → what shows that the program is at fault.

Such an input may be one that the problem does not allow, so that a difference alone refuses nothing. These do:

- The program's file holds the tests' answers, and it gives a test's answer to several inputs made of that test, which
  have others; or it is faster on the tests alone.
- The numbers of a line change places. No test's order is kept in all of them, the original answers each order as it
  answers the test's, and the program does not.

Covers: answers that are whole numbers, held as text, as numbers in the file's data, or in its instructions.
Does not cover: answers that are held in another form; those programs stay undecided, or are not called faster.
"""

import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from ..languages._process import run_tool
from ._program_runs import Built, Program, Ran, Trial, answers, equal

_LEAST_TESTS, _LEAST_DIGITS, _LEAST_OTHERS = 3, 3, 3
_LONG, _ORDERS, _TRIED_ORDERS = 8, 6, 200
_IMMEDIATE = re.compile(r"\$(0x[0-9a-f]+)")
_DATA = re.compile(r"^ [0-9a-f]+ ((?:[0-9a-f]{1,8} ){1,4}) ", re.MULTILINE)
_ORDER: Mapping[str, Callable[[Sequence[int]], bool]] = {
    "ascends": lambda line: all(a <= b for a, b in pairwise(line)),
    "descends": lambda line: all(a >= b for a, b in pairwise(line)),
    "differs from its neighbour": lambda line: all(a != b for a, b in pairwise(line)),
    "changes its parity": lambda line: all((a ^ b) & 1 for a, b in pairwise(line)),
    "is at most its place": lambda line: all(a <= n for n, a in enumerate(line, 1)),
    "is at least its place": lambda line: all(a >= n for n, a in enumerate(line, 1)),
    "begins with the least": lambda line: line[0] == min(line),
    "begins with the greatest": lambda line: line[0] == max(line),
    "ends with the least": lambda line: line[-1] == min(line),
    "ends with the greatest": lambda line: line[-1] == max(line),
}  # fmt: skip
"""What the order of a line's numbers may keep."""


@dataclass(frozen=True)
class Tried:
    """An input that no test has."""

    base: int
    """The number of the test that it was made of."""
    trial: Trial
    """It, with the original's answer."""
    ran: Ran
    """The program's run."""

    @property
    def agrees(self) -> bool:
        """Whether the program answers as the original does."""
        return answers(self.ran, self.trial)


def by_heart(mine: Built, original: Built, program: Program, tried: Sequence[Tried]) -> str:
    """Say that a program gives a test's answer to inputs that have another, which its file holds."""
    for base in {one.base for one in tried}:
        wanted = program.tests[base].expected or ""
        others = [one for one in tried if one.base == base and not equal(one.trial.expected or "", wanted)]
        right = {one.trial.expected for one in others}
        alike = all(not one.ran.late and not one.ran.code and equal(one.ran.output, wanted) for one in others)
        if len(right) >= _LEAST_OTHERS and alike and holds_answers(mine, original, program):
            return (
                f"its file holds the tests' answers, and it gives a test's, {wanted.strip()[:40]}, to {len(others)} "
                "inputs that have others"
            )
    return ""


def holds_answers(mine: Built, original: Built, program: Program) -> bool:
    """Tell whether a program's file holds all answers of the tests, and the original's does not."""
    wanted = {one for test in program.tests for one in (test.expected or "").split()}
    few = len(program.tests) < _LEAST_TESTS or len(wanted) < _LEAST_TESTS
    if few or not all(one.isdigit() and len(one) >= _LEAST_DIGITS for one in wanted):
        return False
    name = program.command.partition(" ")[0]
    return wanted <= _numbers_in(mine.home / name) and not wanted <= _numbers_in(original.home / name)


def _numbers_in(file: Path) -> set[str]:
    """Return whole numbers that a program's data and instructions hold."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return set()
    texts = []
    for words in (["-s", "-j", ".rodata", "-j", ".data"], ["-d", "-j", ".text", "--no-show-raw-insn"]):
        done = run_tool([objdump, *words, file], deadline_s=60.0, limit=64_000_000)
        texts.append(done.output)
    data = bytes.fromhex("".join("".join(found.split()) for found in _DATA.findall(texts[0])))
    numbers = np.frombuffer(data[: len(data) // 4 * 4], "<i4").tolist()
    written = re.findall(rb"(?<![0-9])[0-9]+(?![0-9])", data)
    immediates = (int(found, 16) for found in _IMMEDIATE.findall(texts[1]))
    return {str(n) for n in (*numbers, *immediates)} | {word.decode() for word in written}


def in_another_order(
    program: Program, mine: Built, original: Built, checked: Built, draw: random.Random
) -> str:
    """Say what order of a line's numbers a program answers otherwise, though none matters; empty if there is none."""
    tests = [(test, [line.split() for line in test.stdin.splitlines()]) for test in program.tests]
    for at in range(min((len(lines) for _, lines in tests), default=0)):
        rows = [lines[at] for _, lines in tests]
        if len(rows) < _LEAST_TESTS or not all(
            len(row) >= _LONG and all(map(_is_whole, row)) for row in rows
        ):
            continue
        kept = [name for name, holds in _ORDER.items() if all(holds([*map(int, row)]) for row in rows)]
        asked = [
            (Trial(_with(lines, at, row), test.expected))
            for test, lines in tests
            for row in islice(_orders(lines[at], kept, draw), _ORDERS)
        ]
        if len(asked) < _ORDERS:
            continue
        same = all(
            answers(one.run(program.command, trial.stdin, program.limit_s), trial)
            for trial in asked
            for one in (original, checked)
        )
        wrong = [t for t in asked if not answers(mine.run(program.command, t.stdin, program.limit_s), t)]
        if same and wrong:
            return (
                f"of {len(asked)} inputs that are a test's with the numbers of line {at + 1} in another order it "
                f"answers {len(wrong)} otherwise, and the original none"
            )
    return ""


def _orders(row: Sequence[str], kept: Sequence[str], draw: random.Random) -> Iterator[list[str]]:
    """Yield orders of a line that keep what all tests keep.

    Example:
        >>> row = [str(n) for n in range(9)]
        >>> next(_orders(row, ["ascends"], random.Random(0)), None) is None
        True
        >>> next(_orders(row, ["begins with the least"], random.Random(0)))[0]
        '0'
    """
    for _ in range(_TRIED_ORDERS):
        other = draw.sample(row, len(row))
        if other != list(row) and all(_ORDER[name]([*map(int, other)]) for name in kept):
            yield other


def _with(lines: Sequence[Sequence[str]], at: int, row: Sequence[str]) -> str:
    return "".join(" ".join(row if n == at else line) + "\n" for n, line in enumerate(lines))


def _is_whole(word: str) -> bool:
    return word.lstrip("-").isdigit()
