"""Problem, kernel → Row: the benchmark's verdict and ours, on the same sizes."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..api.judge import judging
from ..config import Settings
from ..devices import detect
from ..errors import InputError, KernelwrightError, StoreError, fault_of
from ..records import CheckStatus, DecisionStatus, Split, Task, VerdictStatus, content_key
from ..sandbox import Pool
from ..search import Judgement
from ..system.deadline import deadline
from ..tasks import Problem, load_task
from ._finished import Finished, finished
from ._journal import Journal
from ._late import ours_if_late, theirs_if_late
from ._programs import ProgramForm, both_on_program
from ._protocol import ForOtherHardware, Script, Suite
from ._records import Ours, Row, SuiteProblem, Theirs
from ._submission import Submission
from ._verifiers import ReadByModels, Reader
from ._worker import their_verdict

_ARENA_BYTES = 1 << 20
_SCREENED = "screened alone: values and sizes other than the problem's own were not tried"


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
    """Most minutes for one problem, both verdicts together; of a search, most minutes of searching and acceptance."""
    reader: Reader | None = None
    """A language model that reads each kernel too, for the benchmark's flags."""

    @contextmanager
    def task(self, problem: SuiteProblem) -> Iterator[Task]:
        """Load a problem as a task, in a folder that lasts as long as the context.

        Raises:
            TaskError: it is none; the message says why.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = self.suite.target(self.data, problem, Path(folder))
            task = load_task(
                path, max_elements=self.max_elements, minutes=self.minutes, backward=problem.backward
            )
            known = task.reference.model_copy(update={"origin": str(self.data / problem.file)})
            yield task.model_copy(update={"reference": known})

    def key(self, problem: SuiteProblem, *parts: str | bytes) -> str:
        """Name what both verdicts on a kernel follow from; `parts` say which kernel, or how it is searched."""
        how = (self.device or "", str(self.max_elements), str(self.screen), self.suite.commit)
        text = (self.data / problem.file).read_bytes()
        read = (self.reader.name,) if self.reader else ()
        return content_key(self.suite.name, problem.name, *parts, text, *how, *read)


@contextmanager
def setup(suite: Suite, data: Path, **options: object) -> Iterator[Setup]:
    """Open what both verdicts need."""
    with Pool(Settings.from_environment(), arena_bytes=_ARENA_BYTES) as pool:
        yield Setup(suite, data, pool, **options)  # type: ignore[arg-type]  # the fields of Setup, by name


@dataclass
class Sides:
    """Both verdicts on one kernel, as far as they are known."""

    candidate: str
    """What was judged, as `Row.candidate` has it."""
    theirs: Theirs | None = None
    """By the benchmark's rules."""
    ours: Ours | None = None
    """By ours."""


def row_of(
    given: Setup, problem: SuiteProblem, sides: Sides, work: Callable[[Task, Sides], None], *, minutes: float
) -> Row:
    """Let `work` fill in both verdicts; whatever fails is a verdict of `unknown` with the reason, never an error.

    Raises:
        StoreError: the store is broken, so that no other problem could be judged either.
    """

    def on_task() -> str:
        with given.task(problem) as task:
            work(task, sides)
            return sizes_of(task)

    return _row(given, problem, sides, on_task, minutes)


def _row(given: Setup, problem: SuiteProblem, sides: Sides, work: Callable[[], str], minutes: float) -> Row:
    begun, sizes, reason = time.monotonic(), "declared", ""
    try:
        with deadline(minutes * 60):
            sizes = work()
    except TimeoutError:
        reason = f"it was not judged within {minutes:g} minutes"
    except StoreError:
        raise
    except (KernelwrightError, OSError) as error:
        reason = " ".join(str(error).split())
    except Exception as error:  # noqa: BLE001  the problem's own code, which one row must survive
        reason = fault_of(error)
    reason = reason or "it was not judged"
    return Row(
        suite=given.suite.name, problem=problem.name, group=problem.group, candidate=sides.candidate, sizes=sizes,
        theirs=sides.theirs or Theirs(status="unknown", message=reason), ours=sides.ours or unknown(reason),
        seconds=round(time.monotonic() - begun, 2), device=detect(given.device).fingerprint,
    )  # fmt: skip


def judge_both(given: Setup, problem: SuiteProblem, candidate: Path) -> Row:
    """Return both verdicts on one kernel, or on a whole program where the benchmark is one of programs.

    Where a model reads, what it says is among the flags of the benchmark's verdict and decides nothing.
    """
    row = _judged(given, problem, candidate)
    if given.reader is None or not isinstance(given.suite, ReadByModels):
        return row
    asked = given.suite.questions(given.data, problem, candidate.read_text(errors="replace"))
    flags = (*row.theirs.flags, *given.reader.flags(asked))
    return row.model_copy(update={"theirs": row.theirs.model_copy(update={"flags": flags})})


def _judged(given: Setup, problem: SuiteProblem, candidate: Path) -> Row:
    suite, sides = given.suite, Sides(str(candidate))
    if isinstance(suite, ProgramForm):

        def on_program() -> str:
            device = detect(given.device).kind
            sides.theirs, sides.ours = both_on_program(suite, given.data, problem, candidate, device)
            return "declared"

        return _row(given, problem, sides, on_program, given.minutes)
    text = candidate.read_text(errors="replace")

    def work(task: Task, sides: Sides) -> None:
        sides.theirs = theirs_of(given, problem, task, text)

        def ours(store: Path | None) -> Ours:
            with judging(task, device=given.device, store=store) as ask:
                found = ours_of(ask(given.suite.candidate(task, candidate), given.screen))
            return _as_screened(found) if given.screen else found

        sides.ours = ours_if_late(ours(given.store), ours, task, text)

    return row_of(given, problem, sides, work, minutes=given.minutes)


def unread(given: Setup, problem: SuiteProblem, kernel: Finished) -> Row:
    """Return the row of a kernel whose files cannot be read."""

    def work() -> str:
        raise InputError(kernel.fault)

    return _row(given, problem, Sides(str(kernel.file)), work, given.minutes)


def theirs_of(given: Setup, problem: SuiteProblem, task: Task, kernel: str | Submission) -> Theirs:
    """Return the benchmark's verdict on a kernel: its text, or a submission that calls a compiled kernel."""
    made = Submission(kernel) if isinstance(kernel, str) else kernel
    script = given.suite.script(task, made.text, given.data, problem)
    if script is None:
        why = "it needs a GPU" if given.suite.repository else "it has no rules but ours"
        if isinstance(given.suite, ForOtherHardware):
            why = given.suite.needs(made.text, given.data) or why
        return Theirs(status="unknown", message=why, flags=given.suite.flags(made.text))

    device = detect(given.device)
    where = device.torch_device if device.kind == "cuda" else "cpu"
    lacks = _lacks(script, where)
    if lacks:
        return Theirs(status="unknown", message=lacks, flags=given.suite.flags(made.text))

    def reference() -> Theirs | None:
        plain = given.suite.submission(task, Problem(task).baseline("eager", task.split(Split.SEARCH)[0]))
        asked = given.suite.script(task, plain.text, given.data, problem) if plain else None
        return their_verdict(asked, given.pool, plain.kernel, where) if plain and asked else None

    def apply() -> Theirs:
        return their_verdict(script, given.pool, made.kernel, where)

    found = theirs_if_late(apply(), apply, reference)
    return found.model_copy(update={"flags": (*given.suite.flags(made.text), *found.flags)})


def _lacks(script: Script, device: str) -> str:
    """Say why a benchmark's program cannot run on a device; empty if it can."""
    if device == "cpu":
        return "it needs a GPU" if script.needs_gpu else ""
    return "" if script.on_gpu else "its rules run on a CPU alone here"


def sizes_of(task: Task) -> str:
    """Say what was shrunk.

    Example:
        >>> sizes_of(load_task("examples/swiglu.py"))
        'declared'
    """
    shrunk = [note.removeprefix("shrunk ") for note in task.notes if note.startswith("shrunk ")]
    return ", ".join(shrunk) or "declared"


def _as_screened(found: Ours) -> Ours:
    """Say of what was found right what a screening leaves out."""
    if found.verdict is not VerdictStatus.ACCEPTED:
        return found
    said = "; ".join(filter(None, (found.reason, _SCREENED)))
    return found.model_copy(update={"screened": True, "reason": said})


def ours_of(judgement: Judgement) -> Ours:
    """Return what a judgement says, as one side of a row."""
    failed = tuple(dict.fromkeys(f.check for f in judgement.findings if f.status is CheckStatus.FAIL))
    return Ours(
        verdict=judgement.verdict, decision=judgement.decision, speedup=judgement.speedup, failed=failed,
        reason=judgement.reason, run=judgement.run,
    )  # fmt: skip


def unknown(reason: str, run: str = "") -> Ours:
    """Return our verdict where there is none."""
    return Ours(verdict=VerdictStatus.UNKNOWN, decision=DecisionStatus.UNKNOWN, reason=reason, run=run)


def judge_all(
    given: Setup, problems: Sequence[SuiteProblem], kernels: Mapping[str, Path], to: Path | None = None
) -> Iterator[Row]:
    """Yield both verdicts on every kernel; with `to`, each row is on disk before the next is begun.

    A row of `to` is taken again only where suite, problem, the kernel's text and the setup are the same.
    """
    journal = Journal(to)
    for problem in problems:
        if problem.name not in kernels:
            continue
        kernel = finished(given.suite, kernels[problem.name])
        key = given.key(problem, *kernel.parts)
        if key not in journal.rows:
            journal.keep(
                key,
                unread(given, problem, kernel) if kernel.fault else judge_both(given, problem, kernel.file),
            )
        yield journal.rows[key]
