"""Suites of our own: written from tables and generators, with sizes that a seed draws."""

from ._row import Row, task_text
from ._written import PUBLIC_SEED, Written, write, written

__all__ = ["PUBLIC_SEED", "Row", "Written", "task_text", "write", "written"]
