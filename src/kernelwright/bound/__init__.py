"""Problem, Workload, Device → Bound: how fast could it be, by physics?"""

from ._roofline import bound
from ._score import SHARED_SLACK, SLACK, headroom, is_faster_than_physics, slack_of, sol_score
from ._traffic import Traffic, traffic
from ._work import work

__all__ = [
    "SHARED_SLACK",
    "SLACK",
    "Traffic",
    "bound",
    "headroom",
    "is_faster_than_physics",
    "slack_of",
    "sol_score",
    "traffic",
    "work",
]
