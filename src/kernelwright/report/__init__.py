"""Run → report, model → report, rows of a benchmark → report: self-contained HTML files that need no network."""

from ._comparison import render_comparison
from ._data import ReportData
from ._html import render
from ._model import ModelReport, render_model
from ._suite import SuiteReport, headline, render_suite, suite_csv, suite_markdown

__all__ = [
    "ModelReport",
    "ReportData",
    "SuiteReport",
    "headline",
    "render",
    "render_comparison",
    "render_model",
    "render_suite",
    "suite_csv",
    "suite_markdown",
]
