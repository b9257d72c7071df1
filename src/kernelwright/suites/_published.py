"""A published result set → its kernels: which problem, which code, and what speedup was claimed.

Covers: JSON of level → task → code, or → a record with the code; lines or lists of records with level, task, code and
score; traces and solutions of the definition form; folders of kernels in a benchmark's own form.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import InputError
from ._finished import finished
from ._protocol import NamedByText, Suite
from ._records import SuiteProblem

_LEVEL = ("level_id", "level", "level_name", "category")
_TASK = ("task_id", "problem_id", "task", "problem", "problem_name", "op_name", "definition", "name")
_CODE = (
    "custom_code",
    "code",
    "kernel_code",
    "kernel",
    "generated_code",
    "submission",
    "predict",
    "solution_code",
)
_REFERENCE = ("ref_code", "reference_code", "ref_arch_src")
_NO_CODE = frozenset({"None", "null", "nan", "N/A"})
"""What stands in published sets where there is no code."""
_CLAIM = ("score_default", "speedup", "claimed_speedup", "score")


@dataclass(frozen=True)
class Published:
    """One kernel of a published result set."""

    label: str
    """What the set calls it."""
    problem: SuiteProblem | None
    """The problem that it is for; None if the benchmark has none of that name."""
    text: str
    """Its code; empty if the set does not have it."""
    claimed: float | None = None
    """The speedup that was published with it."""
    suffix: str = ".py"
    """Of the file that the code would be in."""
    reference: str = ""
    """The problem's own text as the set has it; empty if it has none."""
    files: tuple[tuple[str, str], ...] = ()
    """Everything that a kernel of several files consists of: paths within its folder, and texts; its own first."""
    fault: str = ""
    """Why its files were not read; empty if they were, or if it has none."""


def read_published(
    path: Path, suite: Suite, problems: Sequence[SuiteProblem], data: Path | None = None
) -> tuple[Published, ...]:
    """Read a result set; kernels whose problem is not known are kept, with none.

    Args:
        path: The set: a file or a folder.
        suite: The benchmark that it is for.
        problems: Its problems.
        data: Its checkout, for sets that quote problems instead of naming them.

    Raises:
        InputError: it is in none of the forms, or holds no kernel.
    """
    if path.is_dir():
        found = tuple(
            _of_dataset(path, problems)
            if (path / "solutions").is_dir()
            else _of_folder(path, suite, problems)
        )
    else:
        values = _values(path)
        found = tuple(_quoted(values, suite, problems, data) or _of_values(values, problems, path))
    if not found:
        raise InputError(
            f"{str(path)!r} holds no kernel in a known form: JSON of level → task → code, records with a level, a task "
            "and code, traces with their solutions, or a folder of files named like problems"
        )
    return found


def problem_of(problems: Sequence[SuiteProblem], level: str, task: str) -> SuiteProblem | None:
    """Find a problem by level and by name or number.

    Example:
        >>> known = [SuiteProblem(suite="s", name="level1/23_Softmax", group="level1", file="f")]
        >>> problem_of(known, "1", "23").name, problem_of(known, "", "23_Softmax.py").name, problem_of(known, "2", "23")
        ('level1/23_Softmax', 'level1/23_Softmax', None)
    """
    task = task.removesuffix(".py")
    fits = [p for p in problems if not level or level in {p.group, p.group.removeprefix("level")}]
    for same in (_is_named, _is_numbered):
        found = [p for p in fits if same(p, task)]
        if len(found) == 1:
            return found[0]
    return None


def _is_named(problem: SuiteProblem, task: str) -> bool:
    return task in {problem.name, problem.name.rpartition("/")[2]}


def _is_numbered(problem: SuiteProblem, task: str) -> bool:
    return task.isdigit() and problem.name.rpartition("/")[2].partition("_")[0] == task


def _values(path: Path) -> Any:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} cannot be read as text: {error}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise InputError(f"{str(path)!r} is neither JSON nor lines of JSON: {error.msg}") from None


def _of_values(values: Any, problems: Sequence[SuiteProblem], path: Path) -> Iterator[Published]:
    if isinstance(values, Mapping) and not _is_record(values) and _field(values, _TASK) is None:
        for level, tasks in values.items():
            for task, value in tasks.items() if isinstance(tasks, Mapping) else ():
                yield from _of_value(value, str(level), str(task), problems)
        return
    records = values if isinstance(values, list) else [values]
    if any(isinstance(r, Mapping) and "evaluation" in r for r in records):
        yield from _of_dataset(path.parent, problems, records)
        return
    for record in records:
        if isinstance(record, Mapping):
            level, task = (str(_field(record, names) or "") for names in (_LEVEL, _TASK))
            label, text = "/".join(filter(None, (level, task))), _text(_field(record, _CODE))
            if label or text:
                yield _of_record(record, label, problem_of(problems, level, task))


def _quoted(
    values: Any, suite: Suite, problems: Sequence[SuiteProblem], data: Path | None
) -> list[Published]:
    """Read records that quote their problems; nothing if none does."""
    if data is None or not isinstance(suite, NamedByText) or not isinstance(values, list):
        return []
    found, by_name = list[Published](), {p.name: p for p in problems}
    for number, record in enumerate(values):
        if not isinstance(record, Mapping):
            continue
        unknown = f"record {number}", _text(_field(record, _CODE))
        name, text = suite.quoted(record, data) or unknown
        found.append(Published(name, by_name.get(name), text))
    return found if any(one.problem for one in found) else []


def _is_record(value: Mapping[str, Any]) -> bool:
    return isinstance(_field(value, _CODE), str)


def _of_value(value: Any, level: str, task: str, problems: Sequence[SuiteProblem]) -> Iterator[Published]:
    """Read a code, a record with a code, or a list or dictionary of several for one task."""
    label, problem = "/".join(filter(None, (level, task))), problem_of(problems, level, task)
    if isinstance(value, str):
        yield Published(label, problem, _text(value))
    elif isinstance(value, Mapping) and _is_record(value):
        yield _of_record(value, label, problem)
    elif isinstance(value, Mapping | list):
        for name, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            if isinstance(one, str):
                yield Published(f"{label}#{name}", problem, _text(one))
            elif isinstance(one, Mapping) and _is_record(one):
                yield _of_record(one, f"{label}#{name}", problem)


def _of_record(record: Mapping[str, Any], label: str, problem: SuiteProblem | None) -> Published:
    claimed, text = _number(_field(record, _CLAIM)), _text(_field(record, _CODE))
    return Published(label, problem, text, claimed, reference=_text(_field(record, _REFERENCE)))


def _text(value: object) -> str:
    return value if isinstance(value, str) and value.strip() not in _NO_CODE else ""


def _of_folder(folder: Path, suite: Suite, problems: Sequence[SuiteProblem]) -> Iterator[Published]:
    by_name = {p.name: p for p in problems}
    for name, file in suite.candidates(folder, problems).items():
        label, kernel = file.relative_to(folder).as_posix(), finished(suite, file)
        texts = tuple((path, text.decode(errors="replace")) for path, text in kernel.files.items())
        yield Published(
            label, by_name[name], texts[0][1] if texts else "", suffix=file.suffix,
            files=texts if len(texts) > 1 else (), fault=kernel.fault,
        )  # fmt: skip


def _of_dataset(
    folder: Path, problems: Sequence[SuiteProblem], traces: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[Published]:
    """Read solutions with what their traces claim; with `traces` only the solutions that these name."""
    home = next((f for f in (folder, *folder.parents) if (f / "solutions").is_dir()), folder)
    told = list(traces) if traces is not None else list(_traces(home))
    gains: dict[str, list[float]] = {}
    for trace in told:
        performance = (trace.get("evaluation") or {}).get("performance") or {}
        gains.setdefault(str(trace.get("solution")), []).extend(
            filter(None, [_number(performance.get("speedup_factor"))])
        )
    texts = {}
    for file in sorted((home / "solutions").rglob("*.json")) if (home / "solutions").is_dir() else ():
        texts[str(json.loads(file.read_text()).get("name"))] = file.read_text()
    wanted = list(gains) if traces is not None else list(texts)
    of = {str(t.get("solution")): str(t.get("definition")) for t in told}
    for name in wanted:
        text = texts.get(name, "")
        definition = str(json.loads(text).get("definition")) if text else of.get(name, "")
        claimed = fmean(gains[name]) if gains.get(name) else None
        yield Published(name, problem_of(problems, "", definition), text, claimed, ".json")


def _traces(home: Path) -> Iterator[Mapping[str, Any]]:
    for file in sorted((home / "traces").rglob("*.jsonl")):
        for line in file.read_text().splitlines():
            if line.strip():
                yield json.loads(line)


def _field(record: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None
