"""Situation or words → lessons, the most relevant first.

A lesson is weighted by the similarity of its situation, by how often its edit had the same outcome, and by its
trust. Contradicted lessons lose weight; imported ones count half until our own runs agree.

Covers: lessons of other tasks, sizes and devices, weighted less.
Does not cover: whether an edit applies to a given kernel. A lesson only adds something to try, and never removes
anything.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..store import Store
from ._extract import KIND
from ._lesson import Lesson, Situation

_OTHER_FAMILY, _OTHER_DEVICE, _OTHER_KIND, _OTHER_BOUND, _OTHER_DTYPE = 0.2, 0.7, 0.2, 0.6, 0.8
_SIZE_SCALE = 3.0
"""Factors of e in size over which similarity falls by e."""
_IMPORTED, _SCREENED = 0.5, 0.7
"""Trust in imported lessons, and in those only screened, relative to our own full acceptance."""


@dataclass(frozen=True)
class Recalled:
    """A lesson with its score and supporting counts."""

    lesson: Lesson
    score: float
    """Sort key, from 0 to about 1."""
    agree: int
    """Lessons of the same edit in the same family with the same outcome, itself included."""
    against: int
    """Those with the opposite outcome."""

    def __str__(self) -> str:
        """Return the lesson as one sentence, with how often it was seen and contradicted."""
        contradicted = f", contradicted {_times(self.against)}" if self.against else ""
        return f"{self.lesson} (seen {_times(self.agree)}{contradicted})"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def kept_lessons(store: Store) -> list[Lesson]:
    """Return every lesson in the store, in the order in which they were learnt."""
    return [Lesson.from_json(text) for text in store.kept(KIND)]


def recall(
    store: Store, situation: Situation | None = None, words: str = "", *, limit: int = 8
) -> list[Recalled]:
    """Return the lessons relevant to a situation or containing the words, most relevant first; one per edit."""
    return weigh(kept_lessons(store), situation, words)[:limit]


def weigh(lessons: Sequence[Lesson], situation: Situation | None = None, words: str = "") -> list[Recalled]:
    """Order lessons by relevance; irrelevant ones are left out."""
    alike: dict[tuple[str, str], list[Lesson]] = defaultdict(list)
    for lesson in lessons:
        alike[lesson.situation.family, lesson.edit.signature].append(lesson)
    best: dict[tuple[str, str], Recalled] = {}
    for name, group in alike.items():
        recalled = [_recalled(lesson, group, situation, words) for lesson in group]
        best[name] = max(recalled, key=lambda one: one.score)
    return sorted((r for r in best.values() if r.score > 0), key=lambda one: one.score, reverse=True)


def _recalled(lesson: Lesson, group: Sequence[Lesson], situation: Situation | None, words: str) -> Recalled:
    agree = [one for one in group if one.outcome == lesson.outcome]
    against = [one for one in group if one.outcome != "unclear" and one.helped != lesson.helped]
    belief = (1 + _trust(agree)) / (2 + _trust(agree) + _trust(against))
    near = similarity(lesson.situation, situation) if situation else 1.0
    score = near * belief * _size_of_effect(lesson) * (_overlap(lesson, words) if words else 1.0)
    return Recalled(lesson, round(score, 6), len(agree), len(against))


def similarity(one: Situation, other: Situation) -> float:
    """Return the similarity of two situations, from 0 to 1.

    Example:
        >>> here = Situation(task="t", family="softmax", operators=("softmax",), elements=1e6,
        ...                  dtypes=("float32",), bound_by="dram", device="cpu-1")
        >>> similarity(here, here), similarity(here, here.model_copy(update={"family": "mm", "operators": ("mm",)}))
        (1.0, 0.2)
    """
    near = math.exp(-abs(math.log(one.elements / other.elements)) / _SIZE_SCALE)
    if one.family != other.family:
        shared = set(one.operators) & set(other.operators)
        near *= max(_OTHER_FAMILY, len(shared) / max(len(one.operators), len(other.operators)))
    if one.device != other.device:
        same_kind = one.device.partition("-")[0] == other.device.partition("-")[0]
        near *= _OTHER_DEVICE if same_kind else _OTHER_KIND
    near *= 1.0 if one.bound_by == other.bound_by else _OTHER_BOUND
    return near * (1.0 if one.dtypes == other.dtypes else _OTHER_DTYPE)


def _trust(lessons: Iterable[Lesson]) -> float:
    return sum(
        (_IMPORTED if lesson.source else 1.0) * (1.0 if lesson.evidence.stage == "full" else _SCREENED)
        for lesson in lessons
    )


def _size_of_effect(lesson: Lesson) -> float:
    """Weight large changes and failures above edits without effect."""
    if lesson.effect is None:
        return 0.5 if lesson.outcome in {"refused", "repaired"} else 0.1
    size = min(1.0, abs(math.log(lesson.effect.median)))
    return 0.2 + 0.8 * size if lesson.outcome in {"faster", "slower", "repaired"} else 0.1


def _overlap(lesson: Lesson, words: str) -> float:
    """Return the share of the words found in the lesson, as whole words or prefixes."""
    asked = set(re.findall(r"\w+", words.lower()))
    text = " ".join((str(lesson), lesson.situation.task, *lesson.situation.operators, lesson.edit.proposer))
    held = set(re.findall(r"\w+", text.lower()))
    return sum(any(one.startswith(word) for one in held) for word in asked) / max(1, len(asked))
