"""Runs → hints: what carries over from earlier runs to the next one."""

from ._hints import Hint, hints_of

__all__ = ["Hint", "hints_of"]
