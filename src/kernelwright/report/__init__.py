"""Run → report: one self-contained HTML file that needs no network."""

from ._comparison import render_comparison
from ._data import ReportData
from ._html import render

__all__ = ["ReportData", "render", "render_comparison"]
