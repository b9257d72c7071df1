"""Decisions → requests: which candidate next, for how long, and which one in the end."""

from ._about import environment_of
from ._budget import Meter
from ._choices import check_choices, usable_languages
from ._editing import make_editors
from ._ending import ended_in_words
from ._events import Event, Log, OnEvent
from ._judging import open_judge, recheck
from ._packaging import accepted_of, conclude, package_accepted
from ._proposals import PROPOSERS, make_proposers, proposals_of, request_of
from ._protocol import Judge
from ._result import Judgement, Result, Standing
from ._run import Search
from ._search import judge_one, search, so_far
from ._session import Outcome
from .tuners import DEFAULT_TUNER, Tuner

__all__ = [
    "DEFAULT_TUNER", "PROPOSERS", "Event", "Judge", "Judgement", "Log", "Meter", "OnEvent", "Outcome", "Result",
    "Search", "Standing", "Tuner",
    "accepted_of", "check_choices", "conclude", "ended_in_words", "environment_of", "judge_one", "make_editors",
    "make_proposers", "open_judge", "package_accepted", "proposals_of", "recheck", "request_of", "search", "so_far",
    "usable_languages",
]  # fmt: skip
