"""What people see of a run: one self-contained HTML file, no network."""

from ._html import render
from ._story import Story

__all__ = ["Story", "render"]
