"""Problem, kernel → Row: the benchmark's verdict and ours, on the same sizes."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..api.judge import judging
from ..config import Settings
from ..errors import BusyError, InputError, KernelwrightError
from ..records import CheckStatus, DecisionStatus, Task, VerdictStatus, content_key
from ..sandbox import Pool
from ..search import Judgement
from ..system.deadline import deadline
from ..tasks import load_task
from ._protocol import Suite
from ._records import Ours, Row, SuiteProblem, Theirs
from ._worker import their_verdict

_ARENA_BYTES = 1 << 20


@dataclass(frozen=True)
class Setup:
    """How both verdicts are made."""

    suite: Suite
    """The benchmark."""
    data: Path
    """Its checkout."""
    pool: Pool
    """Makes the workers of the benchmark's own rules."""
    store: Path | None = None
    """Folder of the run store; by default the user's."""
    device: str | None = None
    """`cpu`, `cuda` or `cuda:N`."""
    max_elements: int | None = None
    """Shrink sizes until inputs, parameters and outputs together have no more elements."""
    screen: bool = False
    """Whether our verdict stops where a search ranks a candidate."""
    minutes: float = 10.0
    """Most minutes for one problem, both verdicts together."""

    @contextmanager
    def task(self, problem: SuiteProblem) -> Iterator[Task]:
        """Load a problem as a task, in a folder that lasts as long as the context.

        Raises:
            TaskError: it is none; the message says why.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = self.suite.target(self.data, problem, Path(folder))
            yield load_task(path, max_elements=self.max_elements, minutes=self.minutes)


@contextmanager
def setup(suite: Suite, data: Path, **options: object) -> Iterator[Setup]:
    """Open what both verdicts need."""
    with Pool(Settings.from_environment(), arena_bytes=_ARENA_BYTES) as pool:
        yield Setup(suite, data, pool, **options)  # type: ignore[arg-type]


def judge_both(given: Setup, problem: SuiteProblem, candidate: Path) -> Row:
    """Return both verdicts on one kernel; whatever fails is a verdict of `unknown` with the reason, never an error."""
    begun = time.monotonic()
    text = candidate.read_text(errors="replace")
    sizes = "declared"
    theirs, ours = Theirs(status="unknown"), _unknown("it was not judged")
    try:
        with deadline(given.minutes * 60), given.task(problem) as task:
            sizes = sizes_of(task)
            theirs = theirs_of(given, problem, task, text)
            ours = _judged(given, task, candidate)
    except TimeoutError:
        ours = _unknown(f"it was not judged within {given.minutes:g} minutes")
        if theirs.status == "unknown":
            theirs = Theirs(status="unknown", message=ours.reason)
    except InputError as error:
        ours = _unknown(" ".join(str(error).split()))
        if not theirs.message and theirs.status == "unknown":
            theirs = Theirs(status="unknown", message=ours.reason)
    except (KernelwrightError, BusyError, OSError) as error:
        ours = _unknown(" ".join(str(error).split()))
    return Row(
        suite=given.suite.name, problem=problem.name, group=problem.group, candidate=str(candidate), sizes=sizes,
        theirs=theirs, ours=ours, seconds=round(time.monotonic() - begun, 2),
    )  # fmt: skip


def theirs_of(given: Setup, problem: SuiteProblem, task: Task, text: str) -> Theirs:
    """Return the benchmark's verdict on a kernel's text."""
    script = given.suite.script(task, text, given.data, problem)
    if script is None:
        why = "it needs a GPU" if given.suite.repository else "it has no rules but ours"
        return Theirs(status="unknown", message=why, flags=given.suite.flags(text))
    found = their_verdict(script, given.pool)
    return found.model_copy(update={"flags": (*given.suite.flags(text), *found.flags)})


def sizes_of(task: Task) -> str:
    """Say what was shrunk.

    Example:
        >>> sizes_of(load_task("examples/swiglu.py"))
        'declared'
    """
    shrunk = [note.removeprefix("shrunk ") for note in task.notes if note.startswith("shrunk ")]
    return ", ".join(shrunk) or "declared"


def ours_of(judgement: Judgement) -> Ours:
    """Return what a judgement says, as one side of a row."""
    failed = tuple(dict.fromkeys(f.check for f in judgement.findings if f.status is CheckStatus.FAIL))
    return Ours(
        verdict=judgement.verdict, decision=judgement.decision, speedup=judgement.speedup, failed=failed,
        reason=judgement.reason, run=judgement.run,
    )  # fmt: skip


def _judged(given: Setup, task: Task, candidate: Path) -> Ours:
    with judging(task, device=given.device, store=given.store) as ask:
        return ours_of(ask(candidate, given.screen))


def _unknown(reason: str) -> Ours:
    return Ours(verdict=VerdictStatus.UNKNOWN, decision=DecisionStatus.UNKNOWN, reason=reason)


def judge_all(
    given: Setup, problems: Sequence[SuiteProblem], kernels: Mapping[str, Path], to: Path | None = None
) -> Iterator[Row]:
    """Yield both verdicts on every kernel; with `to`, each row is on disk before the next is begun.

    A row of `to` is taken again only where suite, problem, the kernel's text and the setup are the same.
    """
    known = _kept(to)
    for problem in problems:
        if problem.name not in kernels:
            continue
        key = _key(given, problem, kernels[problem.name])
        row = known.get(key)
        if row is None:
            row = judge_both(given, problem, kernels[problem.name])
            if to is not None:
                _keep(to, key, row)
        yield row


def _key(given: Setup, problem: SuiteProblem, kernel: Path) -> str:
    how = (given.device or "", str(given.max_elements), str(given.screen), given.suite.commit)
    text = (given.data / problem.file).read_bytes()
    return content_key(given.suite.name, problem.name, kernel.read_bytes(), text, *how)


def _keep(to: Path, key: str, row: Row) -> None:
    """Append a row; a line that a killed process left unfinished is closed first."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with to.open("ab+") as out:
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - 1))
        broken = size > 0 and out.read(1) != b"\n"
        line = json.dumps({"key": key, "row": row.model_dump(mode="json")})
        out.write(("\n" if broken else "").encode() + line.encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())


def _kept(to: Path | None) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for line in to.read_text(errors="replace").splitlines() if to is not None and to.is_file() else ():
        with suppress(ValueError, KeyError, TypeError):
            kept = json.loads(line)
            found[kept["key"]] = Row.model_validate(kept["row"])
    return found
