"""Files, command → a built program; input → output and what it took; two programs → the gain of one over the other.

Covers: a program that is timed is one process, of any number of threads, so that both clocks see all of its work and
none of it outlives a run; what one run leaves for the next in queues, shared memory, or a file's times and attributes.
Does not cover: systems without seccomp.
"""

import contextlib
import math
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import TaskError
from ..executor import whole
from ..languages._process import run_tool
from ..measure import limits
from ..records import Interval
from ..sandbox._seccomp import one_process

_BUILD_S, _MOST_CHARACTERS = 300.0, 1 << 24
_CHECKING = (
    "-O1 -fsanitize=undefined -fno-sanitize-recover=all -ftrivial-auto-var-init=pattern -D_GLIBCXX_ASSERTIONS"
)
"""Flags with which a program ends where its language does not say what it does."""
_SEALING = """#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static unsigned char code[1 << 15];

int main(int, char** words) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 126;
  for (words++; **words == '+'; words++) {
    unsigned short bytes = 0;
    unsigned byte;
    for (const char* at = *words + 1; sscanf(at, "%2x", &byte) == 1; at += 2) code[bytes++] = byte;
    struct { unsigned short length; const void* code; } filter;
    filter = {static_cast<unsigned short>(bytes / 8), code};
    if (prctl(PR_SET_SECCOMP, 2, &filter)) return 126;
  }
  execv(words[0], words);
  return 127;
}
"""
"""A program that starts another under filters of system calls, and costs a run no more than its own start."""


@dataclass(frozen=True)
class Trial:
    """An input of a program, and what it has to answer."""

    stdin: str
    """What it is given."""
    expected: str | None
    """What it has to print; None if its exit code alone tells."""


@dataclass(frozen=True)
class Program:
    """A problem: what is built around a program, and what it is run on."""

    files: Mapping[str, str]
    """What is there besides the program, by path."""
    original: Mapping[str, str]
    """The benchmark's own program, by path."""
    build: str
    """The command that builds it, in the folder of the files."""
    command: str
    """The command that runs it."""
    tests: tuple[Trial, ...]
    """What the benchmark runs it on."""
    limit_s: float
    """Most seconds of one run."""
    needs_gpu: bool = False
    """Whether it can only run on a GPU."""
    settings: str = ""
    """Variables of the benchmark's own for a run that is not timed, as a shell has them: `PROFILING_MODE=1`."""


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
    sealing: Path | None = None
    """What starts it so that it stays one process; None where it may start others."""
    more: bytes = b""
    """A further filter of system calls for it."""

    def run(self, command: str, stdin: str, limit_s: float, settings: str = "") -> Ran:
        """Run it in an empty folder; it may read its own and write neither that nor another."""
        with tempfile.TemporaryDirectory() as folder:
            given = self.home.with_name("given") / "stdin"
            given.write_text(stdin)
            program, _, arguments = command.partition(" ")
            runs = whole.command(self.home, program) if self.executed else str(self.home / program)
            if self.sealing:
                filters = " ".join(f"+{one.hex()}" for one in (one_process(), self.more) if one)
                runs = f"{self.sealing} {filters} {runs}"
            words = ["/bin/sh", "-c", f"{settings} exec {runs} {arguments} 2>/dev/null"]
            done = run_tool(
                words, deadline_s=limit_s, folder=Path(folder), limit=_MOST_CHARACTERS, closed=True,
                readable=(self.home, *([self.sealing] if self.sealing else [])), stdin=given,
            )  # fmt: skip
        return Ran(done.output, done.returncode, done.timed_out, done.time_s, done.processor_s)

    @contextmanager
    def checked(self) -> Iterator["Built"]:
        """Build it again so that it ends where its language does not say what it does."""
        with built(f"{self.command} {_CHECKING}", self.files, sealed=self.sealing is not None) as again:
            yield again


@contextmanager
def built(
    command: str, files: Mapping[str, str], *, executed: str = "", sealed: bool = False
) -> Iterator[Built]:
    """Build a program from its files.

    Args:
        command: What builds it, in the folder of the files.
        files: Its texts by path.
        executed: The command that runs it, if it is built so that its launches are executed.
        sealed: Whether it is to be one process that leaves nothing behind.
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
        sealing = _sealing(Path(folder)) if sealed and not failure else None
        yield Built(home, command, files, failure, bool(executed), refusal, sealing)


def _sealing(folder: Path) -> Path | None:
    """Build what starts a program under filters; None where the system has none."""
    if not one_process():
        return None
    source, program = folder / "sealing.cpp", folder / "sealing"
    source.write_text(_SEALING)
    done = run_tool(["g++", "-O1", "-o", program, source], deadline_s=_BUILD_S)
    if done.returncode:
        raise TaskError(f"what keeps a program to one process does not build: {done.output[-200:]}")
    return program


def gains_of(
    program: Runs, mine: Built, original: Built, pairs: Sequence[Sequence[Trial]], draw: random.Random,
    confidence: float,
) -> Interval | None:  # fmt: skip
    """Return the original's time over the program's, in pairs of processes in random order.

    Args:
        program: What is run.
        mine: A program.
        original: What it is compared with.
        pairs: The inputs of each pair.
        draw: Draws the order.
        confidence: Of the interval.

    Returns:
        The gain; None where an answer is another than it has to be.

    Of two clocks, the wall's and the processor's, that with the smaller gain: work that is put off to another process
    or spread over threads shows in one of them.
    """
    logs: list[tuple[float, float]] = []
    for inputs in pairs:
        ran: dict[str, list[Ran]] = {"mine": [], "original": []}
        for trial in inputs:
            order = [("mine", mine), ("original", original)]
            draw.shuffle(order)
            for name, one in order:
                ran[name].append(one.run(program.command, trial.stdin, program.limit_s))
            if not answers(ran["mine"][-1], trial):
                return None
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


def answers(ran: Ran, trial: Trial) -> bool:
    """Tell whether a run ended well, with the answer that it has to have."""
    return not ran.late and not ran.code and (trial.expected is None or equal(ran.output, trial.expected))


def equal(output: str, expected: str) -> bool:
    """Compare word by word: numbers with a point to 1e-6, all else exactly.

    Example:
        >>> equal("0.3333333 x\\n", "0.333333333 x"), equal("1 2", "1 2 3"), equal("1", "2")
        (True, False, False)
    """
    mine, right = output.split(), expected.split()
    return len(mine) == len(right) and all(a == b or _near(a, b) for a, b in zip(mine, right, strict=True))


def _near(mine: str, right: str) -> bool:
    if "." not in right:
        return False
    try:
        a, b = float(mine), float(right)
    except ValueError:
        return False
    return abs(a - b) <= 1e-6 * max(1.0, abs(b))
