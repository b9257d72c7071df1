"""Exports and imports lessons between stores, as JSON lines with their provenance."""

from collections.abc import Iterable

from pydantic import ValidationError

from ..errors import InputError
from ..records import SCHEMA_VERSION
from ..store import Store
from ._extract import KIND
from ._lesson import Lesson


def export_lessons(lessons: Iterable[Lesson]) -> str:
    """Return lessons as lines of JSON."""
    return "".join(f"{lesson.to_json()}\n" for lesson in lessons)


def import_lessons(store: Store, text: str, source: str) -> tuple[Lesson, ...]:
    """Store lessons that another store exported, marked with their source; repeating it changes nothing.

    Raises:
        InputError: a line is not a lesson of this version; then nothing is stored.
    """
    lessons = tuple(
        _read(line, number, source) for number, line in enumerate(text.splitlines(), start=1) if line.strip()
    )
    store.keep(KIND, f"import:{source}", {lesson.key: lesson.to_json() for lesson in lessons})
    return lessons


def _read(line: str, number: int, source: str) -> Lesson:
    try:
        lesson = Lesson.from_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the line"
        raise InputError(
            f"line {number} of {source} is no lesson ({place}: {first['msg']}); "
            "expected what `kernelwright lessons export` writes"
        ) from None
    if lesson.schema_version != SCHEMA_VERSION:
        raise InputError(
            f"line {number} of {source} has schema {lesson.schema_version} and this Kernelwright knows "
            f"{SCHEMA_VERSION}; export it again with the same version"
        )
    return lesson.model_copy(update={"source": lesson.source or source})
