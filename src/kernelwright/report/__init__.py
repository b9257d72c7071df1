"""Run → report, rows of a benchmark → report: self-contained HTML files that need no network."""

from ._comparison import render_comparison
from ._data import ReportData
from ._html import render
from ._suite import SuiteReport, headline, render_suite, suite_csv, suite_markdown

__all__ = [
    "ReportData",
    "SuiteReport",
    "headline",
    "render",
    "render_comparison",
    "render_suite",
    "suite_csv",
    "suite_markdown",
]
