"""Other people's benchmarks: problem, kernel → their verdict and ours, side by side.

Covers: reading a checkout of the user's, the benchmark's own rules in a sandboxed worker, our judge with them.
Does not cover: getting the data; a missing checkout is an error that has the command.
"""

from ._apply_set import write_apply_set
from ._audit import audit_all
from ._both import Setup, judge_all, judge_both, ours_of, setup, sizes_of, theirs_of
from ._checkout import checkout_of, commit_of, find_checkout, fits, get_suite, how_to_get, suite_names
from ._cluster import judge_on, search_on
from ._doctor import Diagnosis, diagnose, moved_bytes
from ._journal import Journal, read_rows
from ._offline import offline
from ._protocol import InFolders, Script, Suite
from ._published import Published, problem_of, read_published
from ._records import NATIVE, Ours, Row, Rules, SuiteProblem, Theirs, fast_p
from ._sample import sampled
from ._search import Searching, search_all
from ._standing import MEANINGS, STANDINGS, Standing, cheat_of, standing_of
from ._submission import Submission
from ._summary import Change, Summary, by_group, changes, curve, gain_ours, gain_theirs, summary_of
from ._verifiers import Question, ReadByModels, Reader, reading
from .own import Written, write

__all__ = [
    "MEANINGS",
    "NATIVE",
    "STANDINGS",
    "Change",
    "Diagnosis",
    "InFolders",
    "Journal",
    "Ours",
    "Published",
    "Question",
    "ReadByModels",
    "Reader",
    "Row",
    "Rules",
    "Script",
    "Searching",
    "Setup",
    "Standing",
    "Submission",
    "Suite",
    "SuiteProblem",
    "Summary",
    "Theirs",
    "Written",
    "audit_all",
    "by_group",
    "changes",
    "cheat_of",
    "checkout_of",
    "commit_of",
    "curve",
    "diagnose",
    "fast_p",
    "find_checkout",
    "fits",
    "gain_ours",
    "gain_theirs",
    "get_suite",
    "how_to_get",
    "judge_all",
    "judge_both",
    "judge_on",
    "moved_bytes",
    "offline",
    "ours_of",
    "problem_of",
    "read_published",
    "read_rows",
    "reading",
    "sampled",
    "search_all",
    "search_on",
    "setup",
    "sizes_of",
    "standing_of",
    "suite_names",
    "summary_of",
    "theirs_of",
    "write",
    "write_apply_set",
]  # fmt: skip
