"""Problem → Profile: where the time of the reference goes, and what is worth changing.

Candidate → Counters: what profilers count while a candidate runs, where there are any.
"""

from ._count import Counting
from ._profile import OpShare, Profile, Share, SubmoduleShare, profile
from ._profiler import Profiler, Ready, Trial
from .tools import PROFILERS

__all__ = [
    "PROFILERS",
    "Counting",
    "OpShare",
    "Profile",
    "Profiler",
    "Ready",
    "Share",
    "SubmoduleShare",
    "Trial",
    "profile",
]
