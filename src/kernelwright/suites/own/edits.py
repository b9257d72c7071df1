"""`edits`: a kernel, a request in words, and what must be true of the answer.

A problem is a folder: a task, and the kernel that it starts from. `optimize` and its editors take the folder as it is;
request and gate stand at the top of the task, where whoever reads the task finds them.
"""

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

from ...api.judge import Judgement
from ...errors import InputError, TaskError
from ...records import Record, SourceFile, VerdictStatus
from .._records import SuiteProblem
from ._kernel import RowKernel, Style
from ._kernels import KERNELS
from ._row import Row, task_text
from ._written import Written

_GATE = "Gate: "
_FASTER = 1.1
_SUFFIXES = {"cpp": ".cpp", "opencl": ".cl"}
_PORTS = (("cpp", "opencl"), ("opencl", "cpp"), ("cpp", "triton"), ("cpp", "wgsl"))
_SIZES = {"rows": (96, 192), "dim": (192, 384)}


class Gate(Record):
    """What must be true of an answer that is right."""

    request: str
    """`fix`, `tune`, `shrink` or `port`."""
    language: str
    """What it must be written in."""
    faster: float = 0.0
    """What its speedup over the start must exceed, by the lower confidence limit; 0 if speed does not matter."""
    most_lines: int = 0
    """Most lines that say something, 0 if its length does not matter."""


class Edit(Record):
    """One problem, before its seed is drawn."""

    request: str
    """`fix`, `tune`, `shrink` or `port`."""
    kernel: int
    """Place in the list of kernels."""
    start: str
    """Language of the start."""
    language: str
    """Language of the answer."""

    @property
    def made(self) -> RowKernel:
        """The kernel."""
        return KERNELS[self.kernel]

    @property
    def name(self) -> str:
        """The problem's name in its group."""
        return self.made.name + (f"_to_{self.language}" if self.request == "port" else "")


class Edits(Written):
    """The suite of requests to change a kernel."""

    name = "edits"
    layout = ("edits.json",)
    title = "A kernel and a request: fix it, make it faster, make it shorter, write it in another language"

    def edits(self) -> tuple[Edit, ...]:
        """Return every problem, before its seed is drawn."""
        numbers = range(len(KERNELS))
        same = [
            Edit(request=r, kernel=n, start="cpp", language="cpp")
            for r in ("fix", "tune", "shrink")
            for n in numbers
        ]
        ports = [(n, *_PORTS[n % len(_PORTS)]) for n in numbers]
        return (*same, *(Edit(request="port", kernel=n, start=a, language=b) for n, a, b in ports))

    def rows(self) -> tuple[Row, ...]:
        """Return the tasks alone, with the numbers of the public seed."""
        return tuple(_row(edit, _scale(edit, 0)) for edit in self.edits())

    def texts(self, seed: int) -> Mapping[str, str]:
        """Return the task and the start of every problem by path."""
        found: dict[str, str] = {}
        for edit in self.edits():
            folder, scale = f"{edit.request}/{edit.name}", _scale(edit, seed)
            found[f"{folder}/task.py"] = _headed(task_text(_row(edit, scale), seed, self.name), edit, scale)
            found[f"{folder}/{edit.made.name}{_SUFFIXES[edit.start]}"] = start_text(edit, scale)
        return found

    def answers(self, seed: int) -> dict[str, SourceFile]:
        """Return an answer that meets the gate, where one is known: of all but the ports to Triton and WGSL."""
        return {
            f"{e.request}/{e.name}": SourceFile(
                path=f"{e.made.name}{_SUFFIXES[e.language]}", text=e.made.text(e.language, _scale(e, seed))
            )
            for e in self.edits()
            if e.language in _SUFFIXES
        }  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the folders that were written."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f.parent.relative_to(data).as_posix(), group=f.parent.parent.name,
                file=f.relative_to(data).as_posix(),
            )
            for f in sorted(data.glob("*/*/task.py"))
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the problem's folder, with the kernel."""
        source = (data / problem.file).parent
        if not (data / problem.file).is_file():
            raise TaskError(f"{problem.suite} has no file {problem.file!r} in this folder")
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return folder


def start_text(edit: Edit, scale: float) -> str:
    """Return the kernel that a problem begins with."""
    styles: dict[str, Style] = {"tune": "slow", "shrink": "long"}
    return edit.made.text(edit.start, scale, styles.get(edit.request, "plain"), wrong=edit.request == "fix")


def gate_of(text: str) -> Gate:
    """Return the gate that stands in a task's text.

    Raises:
        InputError: there is none.
    """
    line = next((line for line in text.splitlines() if line.startswith(_GATE)), None)
    if line is None:
        raise InputError(
            f"the task has no line that begins with {_GATE!r}; it is no problem of the suite edits"
        )
    return Gate.model_validate(json.loads(line.removeprefix(_GATE)))


def unmet(gate: Gate, language: str, text: str, judgement: Judgement) -> tuple[str, ...]:
    """Say what of a gate an answer does not meet; nothing if it meets all of it.

    Args:
        gate: What is asked for.
        language: What the answer is written in.
        text: Its source.
        judgement: Of the answer, against the baselines that `baselines_of` names.

    Example:
        >>> from types import SimpleNamespace
        >>> wrong = SimpleNamespace(verdict="rejected", speedup=None)
        >>> unmet(Gate(request="port", language="opencl"), "cpp", "", wrong)
        ('it is not right: rejected', 'it is written in cpp; expected opencl')
    """
    found = []
    if judgement.verdict != VerdictStatus.ACCEPTED:
        found.append(f"it is not right: {judgement.verdict}")
    if language != gate.language:
        found.append(f"it is written in {language}; expected {gate.language}")
    if gate.most_lines and (lines := lines_of(text)) > gate.most_lines:
        found.append(f"it has {lines} lines; expected at most {gate.most_lines}")
    if gate.faster:
        least = judgement.speedup.at_least if judgement.speedup else 0.0
        if least <= gate.faster:
            found.append(
                f"it is at least {least:.2f} times as fast as the start; expected more than {gate.faster}"
            )
    return tuple(found)


def baselines_of(gate: Gate) -> tuple[str, ...]:
    """Return what an answer is timed against: the start where that is what it must be faster than.

    A start that is wrong is no baseline: timed outputs are compared with those of baselines.

    Example:
        >>> baselines_of(Gate(request="tune", language="cpp", faster=1.2))
        ('start',)
    """
    return ("start",) if gate.faster else ("eager",)


def lines_of(text: str) -> int:
    """Count the lines that say something: neither empty, nor a comment, nor brackets alone.

    Example:
        >>> lines_of("// twice\\nvoid f() {\\n\\n  g();\\n}\\n")
        2
    """
    return sum(bool(line.strip(" {};()")) and not line.strip().startswith("//") for line in text.splitlines())


def _scale(edit: Edit, seed: int) -> float:
    """Draw a number that no published kernel has in that place; a multiple of 1/64, exact in every float."""
    return random.Random(f"{seed}/edits/{edit.request}/{edit.name}").randrange(33, 127) / 64


def _row(edit: Edit, scale: float) -> Row:
    made = edit.made
    body = "".join(f"    {line}\n" for line in made.reference.replace("SCALE", str(scale)).splitlines())
    return Row(
        made.name,
        edit.request,
        f"def _({', '.join(made.arguments)}):\n{body}",
        made.declared,
        _SIZES,
        made.description,
    )


def _headed(text: str, edit: Edit, scale: float) -> str:
    """Put request and gate at the top of a task's text."""
    gate = _gate(edit, scale)
    said = {
        "fix": f"This kernel is wrong: {edit.made.symptom}. Find the cause and fix it.",
        "tune": f"This kernel is right and slow. Make it more than {gate.faster:g} times as fast.",
        "shrink": f"This kernel is right and longer than it needs to be. Write it in at most {gate.most_lines} lines.",
        "port": f"This kernel is right. Write it in {edit.language}.",
    }[edit.request]
    shown = json.dumps(gate.model_dump(mode="json", exclude_defaults=True))
    description, quotes, rest = text.removeprefix('"""').partition('"""')
    return f'"""{description}\n\nRequest: {said}\n{_GATE}{shown}\n{quotes}{rest}'


def _gate(edit: Edit, scale: float) -> Gate:
    lines = lines_of(start_text(edit, scale)) // 2 if edit.request == "shrink" else 0
    return Gate(
        request=edit.request,
        language=edit.language,
        faster=_FASTER if edit.request == "tune" else 0.0,
        most_lines=lines,
    )
