"""Candidate → Verdict: is it right, on inputs it has never seen, and honest?

`verify` runs the checks of `checks/` on a candidate in workers of its own. `admit` asks the same of the task:
whether its inputs and tolerances refuse wrong answers. `error_against` is the comparison itself.

Covers: see docs/acceptance.md, "Covers".
Does not cover: speed; that is `measure`. Only the calls that are made are judged.
"""

from ._admit import ADMISSION, Admission, admit
from ._case import Case, Oracle, Seeds
from ._error import Comparison, error_against
from ._modelled import modelled_times
from ._protocol import Check, Depth, Observation, Probe
from ._tolerance import OutputTolerance, output_tolerance
from ._triage import triage
from ._trial import may_compile
from ._verify import elsewhere, precompute, verify
from .checks import check_names

__all__ = [
    "ADMISSION",
    "Admission",
    "Case",
    "Check",
    "Comparison",
    "Depth",
    "Observation",
    "Oracle",
    "OutputTolerance",
    "Probe",
    "Seeds",
    "admit",
    "check_names",
    "elsewhere",
    "error_against",
    "may_compile",
    "modelled_times",
    "output_tolerance",
    "precompute",
    "triage",
    "verify",
]  # fmt: skip
