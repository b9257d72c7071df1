"""Runs → knowledge for later runs: hints, lessons, training data and prompt versions.

A *hint* suggests which configurations of a template to try first. A *lesson* records the measured effect of an edit
in a situation. A *step* is one candidate of a run as training data.
`prompts.py` records the outcomes of each version of a prompt.
"""

from ._audit import Audited, audit
from ._exchange import export_lessons, import_lessons
from ._extract import learn_from, lessons_of, situation_of
from ._hints import Hint, hints_of
from ._lesson import Edit, Evidence, Lesson, Situation
from ._recall import Recalled, kept_lessons, recall, similarity
from .trajectories import Step, steps_of

__all__ = [
    "Audited",
    "Edit",
    "Evidence",
    "Hint",
    "Lesson",
    "Recalled",
    "Situation",
    "Step",
    "audit",
    "export_lessons",
    "hints_of",
    "import_lessons",
    "kept_lessons",
    "learn_from",
    "lessons_of",
    "recall",
    "similarity",
    "situation_of",
    "steps_of",
]  # fmt: skip
