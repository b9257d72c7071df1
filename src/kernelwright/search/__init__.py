"""Decisions → requests: which candidate to try next, for how long, and which one to accept."""

from .editing._editing import make_editors
from .evaluation._evaluation import unbuilt
from .evaluation._judge import decides_alike, open_judge
from .evaluation._protocol import Judge
from .evaluation.remote import measured_on
from .proposals._proposals import PROPOSERS, make_proposers, proposals_of, request_of
from .run._budget import Meter
from .run._ending import ended_in_words
from .run._events import Event, Log, OnEvent
from .run._metadata import environment_of
from .run._run import Search, check_resumable
from .session._choices import check_choices, device_of, usable_languages
from .session._packaging import (
    accepted_of,
    accepted_with,
    conclude,
    environment_here,
    found_by,
    package_accepted,
)
from .session._result import Judgement, Result, Standing, judgement_of
from .session._search import judge_one, search, so_far
from .session._session import Outcome
from .tuners import DEFAULT_TUNER, Tuner

__all__ = [
    "DEFAULT_TUNER",
    "PROPOSERS",
    "Event",
    "Judge",
    "Judgement",
    "Log",
    "Meter",
    "OnEvent",
    "Outcome",
    "Result",
    "Search",
    "Standing",
    "Tuner",
    "accepted_of",
    "accepted_with",
    "check_choices",
    "check_resumable",
    "conclude",
    "decides_alike",
    "device_of",
    "ended_in_words",
    "environment_here",
    "environment_of",
    "found_by",
    "judge_one",
    "judgement_of",
    "make_editors",
    "make_proposers",
    "measured_on",
    "open_judge",
    "package_accepted",
    "proposals_of",
    "request_of",
    "search",
    "so_far",
    "unbuilt",
    "usable_languages",
]  # fmt: skip
