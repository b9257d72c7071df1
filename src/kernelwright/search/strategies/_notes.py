"""An editor's notes → values, parsed leniently because a model wrote them."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

_MOST_RATING, _MOST_DIFFICULTY = 1.0, 5.0


@dataclass(frozen=True)
class Hypothesis:
    """One idea to try."""

    idea: str
    """What to do, in words."""
    rating: float
    """How likely it is to help, 0 to 1."""
    difficulty: float
    """How hard it is to do, 1 to 5."""


def hypotheses_of(notes: Mapping[str, JsonValue]) -> tuple[Hypothesis, ...]:
    """Read `hypotheses`, a list of objects with `idea`, `rating` and `difficulty`; invalid entries are skipped.

    Example:
        >>> hypotheses_of({"hypotheses": [{"idea": "fuse", "rating": 99}, "tile", {"rating": 0.3}]})
        (Hypothesis(idea='fuse', rating=1.0, difficulty=3.0), Hypothesis(idea='tile', rating=0.5, difficulty=3.0))
    """
    found = []
    listed = notes.get("hypotheses")
    for item in listed if isinstance(listed, list) else []:
        fields: Mapping[str, JsonValue] = item if isinstance(item, dict) else {"idea": item}
        idea = fields.get("idea")
        if isinstance(idea, str) and idea.strip():
            rating = number_of(fields.get("rating"), 0.5, 0.0, _MOST_RATING)
            difficulty = number_of(fields.get("difficulty"), 3.0, 1.0, _MOST_DIFFICULTY)
            found.append(Hypothesis(idea.strip(), rating, difficulty))
    return tuple(found)


def words_of(notes: Mapping[str, JsonValue], name: str) -> tuple[str, ...]:
    """Read a list of strings."""
    listed = notes.get(name)
    return (
        tuple(w.strip() for w in listed if isinstance(w, str) and w.strip())
        if isinstance(listed, list)
        else ()
    )


def number_of(value: JsonValue, otherwise: float, least: float, most: float) -> float:
    """Read a number and clamp it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    return min(max(float(value), least), most)
