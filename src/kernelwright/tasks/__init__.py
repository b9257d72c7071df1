"""Target → Task, and Task → Problem: what is to be made faster, frozen as a record and alive to run."""

from ..records import Workload
from ._baselines import caveat, keeps_weights, superfluous
from ._brief import brief
from ._candidate import candidate_of, load_candidate
from ._draw import dtype_name
from ._evaluation import MEASURED, Evaluation
from ._facts import aliases, in_other_mode, unvaried
from ._problem import Outcome, Problem
from ._rounding import Apart, Rounding
from ._sparing import Sparing
from ._target import Target, load_task, one_thread
from .forms.own import task

__all__ = [
    "MEASURED",
    "Apart",
    "Evaluation",
    "Outcome",
    "Problem",
    "Rounding",
    "Sparing",
    "Target",
    "Workload",
    "aliases",
    "brief",
    "candidate_of",
    "caveat",
    "dtype_name",
    "in_other_mode",
    "keeps_weights",
    "load_candidate",
    "load_task",
    "one_thread",
    "superfluous",
    "task",
    "unvaried",
]  # fmt: skip
