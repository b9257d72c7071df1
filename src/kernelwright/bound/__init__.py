"""Problem, Workload, Device → Bound: the least time possible on the device (roofline)."""

from ._rates import Rates, rates_of
from ._roofline import bound
from ._score import headroom, slack_of, sol_score
from ._traffic import Traffic, traffic
from ._work import Saved, products_by_definition, savings, work

__all__ = [
    "Rates",
    "Saved",
    "Traffic",
    "bound",
    "headroom",
    "products_by_definition",
    "rates_of",
    "savings",
    "slack_of",
    "sol_score",
    "traffic",
    "work",
]
