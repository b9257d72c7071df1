"""Runs → what carries over to the next run.

A *hint* says which configuration of a template to try first. A *lesson* says which edit had which measured effect
in which situation. A *step* is one candidate of a run as data to train on.
`prompts.py` says how each version of a prompt did.
"""

from ._audit import Audited, audit
from ._draw import learn_from, lessons_of, situation_of
from ._exchange import export_lessons, import_lessons
from ._hints import Hint, hints_of
from ._lesson import Edit, Evidence, Lesson, Situation
from ._recall import Recalled, kept_lessons, likeness, recall
from .trajectories import Step, steps_of

__all__ = [
    "Audited", "Edit", "Evidence", "Hint", "Lesson", "Recalled", "Situation", "Step", "audit", "export_lessons",
    "hints_of", "import_lessons", "kept_lessons", "learn_from", "lessons_of", "likeness", "recall", "situation_of",
    "steps_of",
]  # fmt: skip
