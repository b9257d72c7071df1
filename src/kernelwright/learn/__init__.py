"""Runs → lessons: what carries over from earlier runs to the next one."""

from ._lessons import Lesson, lessons_of

__all__ = ["Lesson", "lessons_of"]
