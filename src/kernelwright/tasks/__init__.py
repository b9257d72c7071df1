"""Target → Task, and Task → Problem: what to optimise, as a frozen record and as a runnable object."""

from ..records import Workload
from ._baselines import caveat, keeps_weights, superfluous
from ._candidate import builds_cuda, candidate_of, load_candidate
from ._description import description_of
from ._gradient import with_gradients
from ._observed import aliases, in_other_mode, unvaried
from ._problem import Outcome, Problem
from ._target import Target, load_task, one_thread
from ._weights import fit_state, listed
from .forms.own import task
from .inputs._draw import dtype_name
from .numerics._choices import CHOICES, Recorded, Turned
from .numerics._evaluation import Evaluation, measured_in
from .numerics._rounding import Decomposed, Rounding
from .numerics._skipped_zeros import SkippedZeros

__all__ = [
    "CHOICES",
    "Decomposed",
    "Evaluation",
    "Outcome",
    "Problem",
    "Recorded",
    "Rounding",
    "SkippedZeros",
    "Target",
    "Turned",
    "Workload",
    "aliases",
    "builds_cuda",
    "candidate_of",
    "caveat",
    "description_of",
    "dtype_name",
    "fit_state",
    "in_other_mode",
    "keeps_weights",
    "listed",
    "load_candidate",
    "load_task",
    "measured_in",
    "one_thread",
    "superfluous",
    "task",
    "unvaried",
    "with_gradients",
]  # fmt: skip
