"""What the suites of our own share: problems are written from rows and a seed, and judged by our rules alone."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import InputError
from ...records import Candidate, Task, content_key
from .._modules import by_name, copied
from .._protocol import Script
from .._records import Rules, SuiteProblem
from .._submission import Submission
from ._row import Row, task_text

RULES = Rules(
    correctness="ours alone: against float64 on inputs that no worker has seen, at other sizes, layouts and values too",
    timing="ours alone: paired blocks on fresh inputs, against eager and compiled torch",
    score="problems on which a kernel is accepted, and the lower limit of its speedup",
    trials=0, tolerance=0.0, timed=0, seed=0,
)  # fmt: skip
"""How all of them are judged."""
PUBLIC_SEED = 0
"""The seed of the sizes where none is asked for; whoever wants sizes that nobody has seen asks for another."""


class Written:
    """A suite whose problems are written from rows; `layout` names the file that says what a folder is."""

    name = ""
    title = ""
    repository = ""
    commit = ""
    layout: tuple[str, ...] = ()
    rules = RULES

    def rows(self) -> tuple[Row, ...]:
        """Return every problem, before its sizes are drawn."""
        raise NotImplementedError

    def texts(self, seed: int) -> Mapping[str, str]:
        """Return the text of every file by its path; another seed draws other sizes."""
        return {f"{row.group}/{row.name}.py": task_text(row, seed, self.name) for row in self.rows()}

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the problems that were written."""
        return tuple(
            SuiteProblem(suite=self.name, name=f"{f.parent.name}/{f.stem}", group=f.parent.name,
                         file=f.relative_to(data).as_posix())
            for f in sorted(data.glob("*/*.py"))
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the problem's file."""
        return copied(data, problem, folder)

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find files named like their problems, in any language."""
        return by_name(folder, problems, pattern="*.*")

    def candidate(self, task: Task, file: Path) -> Path | Candidate:
        """Return the file: our judge takes it as it is."""
        del task
        return file

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return nothing: a kernel of ours needs no other form."""
        del task, candidate
        return None

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return nothing: they have no rules but ours."""
        del task, candidate, data, problem
        return None

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: nothing is screened by its text."""
        del candidate
        return ()


def write(suite: Written, folder: Path, seed: int) -> int:
    """Write a suite's problems into a new folder and return how many files there are.

    Raises:
        InputError: the folder has something in it.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} is not empty; name a new folder for the problems of {suite.name}")
    found = suite.texts(seed)
    marker = {mark: json.dumps({"suite": suite.name, "seed": seed}) for mark in suite.layout}
    for name, text in {**found, **marker}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return len(found)


def written(suite: Written, home: Path) -> Path:
    """Return the folder of a suite under its public seed, written now if this version never was."""
    texts = suite.texts(PUBLIC_SEED)
    folder = home / f"{suite.name}-{content_key(*(part for pair in sorted(texts.items()) for part in pair))}"
    if not folder.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=home))
        write(suite, scratch, PUBLIC_SEED)
        try:
            scratch.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(scratch, ignore_errors=True)
    return folder
