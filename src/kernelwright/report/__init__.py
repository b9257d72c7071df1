"""What people see of a run: one self-contained HTML file, no network."""

from ._comparison import render_comparison
from ._html import render
from ._story import Story

__all__ = ["Story", "render", "render_comparison"]
