"""The folder that an agent works in: its instructions, the files it may change, and the result it leaves.

Covers: harness files edited, replaced or removed (the result is void); links, devices and huge files left as
candidates (refused).
Does not cover: what an agent does elsewhere on the machine; see `_attempt.py`.
"""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from ...errors import TaskError
from ...records import Candidate, SourceFile, Task
from ...tasks import description_of, load_candidate
from .._protocol import Move, Request
from ._queue import read_plain

CANDIDATE, IDEA = "candidate", "IDEA.txt"
_HOME = Path(__file__).parent
_MOST_FILES, _MOST_IDEA = 16, 200
_SOURCES = (".py", ".cpp", ".cc", ".cxx", ".cu", ".cl", ".wgsl", ".h", ".hpp", ".cuh", ".inl")


class Workspace:
    """A folder made for one move, and the hashes of the files that must not change."""

    def __init__(
        self,
        folder: Path,
        move: Move,
        request: Request,
        *,
        judgements: int,
        minutes: float,
        told: Sequence[str],
    ) -> None:
        """Write the folder.

        Args:
            folder: An empty folder.
            move: What to do.
            request: The request; of its task only what a kernel writer may know.
            judgements: How often the agent may ask the judge.
            minutes: Its time limit.
            told: Feedback on the parents, one text each.
        """
        self.folder = folder
        task = request.problem.task
        rules = (_HOME / "workspace.md").read_text().replace("{writing}", (_HOME / "writing.md").read_text())
        rules = rules.replace("{judgements}", str(judgements)).replace("{minutes}", f"{minutes:.0f}")
        script = f"#!{sys.executable}\n{(_HOME / 'judge_script.py').read_text()}"
        files = {
            "README.md": rules,
            "TASK.md": _task_page(task, move, request, told),
            "judge": script,
            **{f"reference/{file.path}": file.text for file in task.reference.files},
        }
        (folder / CANDIDATE).mkdir()
        for name, text in files.items():
            write(folder, name, text)
        (folder / "judge").chmod(0o755)
        for file in _start(move, task):
            write(folder / CANDIDATE, file.path, file.text)
        self._harness = {name: _digest(text.encode()) for name, text in files.items()}

    def edited(self) -> tuple[str, ...]:
        """Return the names of harness files that were changed."""
        return tuple(
            name for name, digest in self._harness.items() if _digest_of(self.folder, name) != digest
        )

    def left(self) -> dict[str, str]:
        """Return the plain files in `candidate/`, by name.

        Raises:
            TaskError: there is none, or there is something else.
        """
        folder = self.folder / CANDIDATE
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            raise TaskError("the agent left no folder candidate/") from None
        try:
            names = sorted(n for n in os.listdir(opened) if n == IDEA or n.endswith(_SOURCES))  # noqa: PTH208
            if len(names) > _MOST_FILES:
                raise TaskError(
                    f"the agent left {len(names)} files in candidate/; expected {_MOST_FILES} at most"
                )
            return {name: read_plain(name, opened) for name in names}
        except (OSError, ValueError) as error:
            raise TaskError(f"what the agent left in candidate/ cannot be read ({error})") from None
        finally:
            os.close(opened)


def candidate_of(files: dict[str, str], task: Task, scratch: Path) -> Candidate:
    """Make a candidate from files; they are only read, never run.

    Raises:
        TaskError: they do not form a candidate.
    """
    scratch.mkdir(parents=True)
    for name, text in files.items():
        if name != IDEA:
            write(scratch, name, text)
    return load_candidate(scratch, task)


def idea_of(files: dict[str, str]) -> str:
    """Return the first line of the agent's description of its kernel; empty if there is none."""
    return next((line.strip() for line in files.get(IDEA, "").splitlines() if line.strip()), "")[:_MOST_IDEA]


def write(folder: Path, name: str, text: str) -> None:
    """Write a file below a folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _start(move: Move, task: Task) -> Sequence[SourceFile]:
    """Return the initial files of `candidate/`: the parent, or the kernel that the task starts from."""
    return move.parents[0].candidate.sources if move.parents else task.start


def _task_page(task: Task, move: Move, request: Request, told: Sequence[str]) -> str:
    bounds = [
        f"{b.workload}: attainable {b.attainable_us:.4g} us, limited by {b.limit}" for b in request.bounds
    ]
    known: dict[str, JsonValue] = {
        k: v for k, v in description_of(task).items() if k not in {"reference", "start"}
    }
    sections = {
        f"Task: {task.name}": f"```json\n{json.dumps(known, indent=1)}\n```\nThe reference is in `reference/`.",
        "Machine": f"{request.device.name}; languages, the preferred first: {', '.join(request.languages)}",
        "By physics": _listed(bounds),
        "What earlier runs taught": _listed(request.lessons),
        "What there is": "\n\n".join(told),
        "What was tried before": _listed(move.tried),
        "What to do now": f"{_DO.get(move.operator, move.operator)} {move.goal}".strip(),
    }
    return "\n\n".join(f"# {title}\n\n{text}" for title, text in sections.items() if text) + "\n"


_DO = {
    "draft": "Write a kernel from scratch.",
    "improve": "Make the kernel in `candidate/` faster; it is right.",
    "repair": "Fix the kernel in `candidate/`; what is wrong with it stands above.",
}


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of(folder: Path, name: str) -> str:
    path = folder / name
    try:
        return _digest(path.read_bytes()) if not path.is_symlink() else ""
    except OSError:
        return ""
