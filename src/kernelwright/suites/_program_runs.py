"""Files, command → a built program; input → output and what it took; two programs → the gain of one over the other."""

import contextlib
import math
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..executor import whole
from ..languages._process import run_tool
from ..measure import limits
from ..records import Interval

_BUILD_S, _MOST_CHARACTERS = 300.0, 1 << 24
_CHECKING = (
    "-O1 -fsanitize=undefined -fno-sanitize-recover=all -ftrivial-auto-var-init=pattern -D_GLIBCXX_ASSERTIONS"
)
"""Flags with which a program ends where its language does not say what it does."""


class Runs(Protocol):
    """What is run of a problem."""

    @property
    def command(self) -> str:
        """The command that runs it."""

    @property
    def limit_s(self) -> float:
        """Most seconds of one run."""


@dataclass(frozen=True)
class Ran:
    """One run."""

    output: str
    code: int
    late: bool
    """Whether it was stopped at its limit."""
    wall_s: float
    """Wall seconds."""
    processor_s: float
    """Processor seconds."""


@dataclass(frozen=True)
class Built:
    """A built program in a folder of its own."""

    home: Path
    command: str
    """What built it."""
    files: Mapping[str, str]
    failure: str = ""
    """The compiler's complaint; empty if it was built."""
    executed: bool = False
    """Whether its launches are executed, since there is no GPU."""
    refusal: str = ""
    """What of it is not executed; empty if nothing."""

    def run(self, command: str, stdin: str, limit_s: float, settings: str = "") -> Ran:
        """Run it in an empty folder; it may read its own and write neither that nor another."""
        with tempfile.TemporaryDirectory() as folder:
            given = self.home.with_name("given") / "stdin"
            given.write_text(stdin)
            program, _, arguments = command.partition(" ")
            runs = whole.command(self.home, program) if self.executed else str(self.home / program)
            words = ["/bin/sh", "-c", f"{settings} exec {runs} {arguments} 2>/dev/null"]
            done = run_tool(
                words, deadline_s=limit_s, folder=Path(folder), limit=_MOST_CHARACTERS, closed=True,
                readable=(self.home,), stdin=given,
            )  # fmt: skip
        return Ran(done.output, done.returncode, done.timed_out, done.time_s, done.processor_s)

    @contextmanager
    def checked(self) -> Iterator["Built"]:
        """Build it again so that it ends where its language does not say what it does."""
        with built(f"{self.command} {_CHECKING}", self.files) as again:
            yield again


@contextmanager
def built(command: str, files: Mapping[str, str], *, executed: str = "") -> Iterator[Built]:
    """Build a program from its files.

    Args:
        command: What builds it, in the folder of the files.
        files: Its texts by path.
        executed: The command that runs it, if it is built so that its launches are executed.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "built"
        (Path(folder) / "given").mkdir()
        for path, text in files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        with contextlib.ExitStack() as stack:
            more = stack.enter_context(whole.linking(home, [*files.values()])) if executed else ""
            done = run_tool(
                ["/bin/sh", "-c", f"{command} {more}"], deadline_s=_BUILD_S, folder=home, closed=True
            )
        failure = "the compiler takes too long" if done.timed_out else ""
        failure = failure or (done.output[-800:] if done.returncode else "")
        refusal = ""
        if executed and not failure:
            refusal = whole.prepared(home / executed.split(maxsplit=1)[0], home, dict(files))
        yield Built(home, command, files, failure, bool(executed), refusal)


def gains_of(
    program: Runs, mine: Built, original: Built, inputs: Sequence[str], pairs: int, draw: random.Random,
    confidence: float,
) -> Interval:  # fmt: skip
    """Return the original's time over the program's, in pairs of processes in random order.

    Of two clocks, the wall's and the processor's, that with the smaller gain: work that is put off to another process
    or spread over threads shows in one of them.
    """
    logs: list[tuple[float, float]] = []
    for _ in range(pairs):
        ran: dict[str, list[Ran]] = {"mine": [], "original": []}
        for text in inputs:
            order = [("mine", mine), ("original", original)]
            draw.shuffle(order)
            for name, one in order:
                ran[name].append(one.run(program.command, text, program.limit_s))
        walls, processors = (
            {n: sum(getattr(r, c) for r in all_) for n, all_ in ran.items()} for c in _CLOCKS
        )
        logs.append((_log_ratio(walls), _log_ratio(processors)))
    level = (1 - confidence) / 2
    found = [limits(one, level_low=level, level_high=level) for one in zip(*logs, strict=True)]
    least = min(found, key=lambda one: one.median)
    return Interval(
        median=math.exp(least.median),
        low=math.exp(least.low) if math.isfinite(least.low) else None,
        high=math.exp(least.high) if math.isfinite(least.high) else None,
    )


_CLOCKS = ("wall_s", "processor_s")


def _log_ratio(spent_s: Mapping[str, float]) -> float:
    least = 1e-6
    return math.log(max(spent_s["original"], least) / max(spent_s["mine"], least))
