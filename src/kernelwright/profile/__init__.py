"""Problem → Profile: where the reference spends its time, and what is worth optimising.

Candidate → Counters: what available profilers measure while a candidate runs.
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
