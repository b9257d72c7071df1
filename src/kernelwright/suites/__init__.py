"""Other people's benchmarks: problem, kernel → their verdict and ours, side by side.

Covers: reading a checkout of the user's, the benchmark's own rules in a sandboxed worker, our judge with them.
Does not cover: getting the data; a missing checkout is an error that has the command.
"""

from ._both import Setup, judge_all, judge_both, ours_of, setup, sizes_of, theirs_of
from ._checkout import checkout_of, find_checkout, fits, get_suite, how_to_get, suite_names
from ._doctor import Diagnosis, diagnose, moved_bytes
from ._offline import offline
from ._protocol import Script, Suite
from ._records import Ours, Row, Rules, SuiteProblem, Theirs, fast_p
from .own import Written, write

__all__ = [
    "Diagnosis",
    "Ours",
    "Row",
    "Rules",
    "Script",
    "Setup",
    "Suite",
    "SuiteProblem",
    "Theirs",
    "Written",
    "checkout_of",
    "diagnose",
    "fast_p",
    "find_checkout",
    "fits",
    "get_suite",
    "how_to_get",
    "judge_all",
    "judge_both",
    "moved_bytes",
    "offline",
    "ours_of",
    "setup",
    "sizes_of",
    "suite_names",
    "theirs_of",
    "write",
]  # fmt: skip
