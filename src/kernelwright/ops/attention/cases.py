"""Workloads of attention: every tail of a tile, grouped heads, ranges that are random."""

from .._core import Cases

CASES: tuple[Cases, ...] = ()
"""The cases of this family."""
