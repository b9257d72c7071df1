"""Graph → Leaves: schedules worth measuring, chosen by an estimate of their traffic and arithmetic.

The estimate only ranks: leaves become templates, and the search measures them.
"""

from ._beam import CostPolicy, Leaf, Legal, Policy, alone, beam, beginning, explained, leaves, legal
from ._cost import Cost, estimate
from ._faults import Faults

__all__ = [
    "Cost", "CostPolicy", "Faults", "Leaf", "Legal", "Policy", "alone", "beam", "beginning", "estimate", "explained",
    "leaves", "legal",
]  # fmt: skip
