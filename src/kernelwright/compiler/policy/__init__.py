"""Graph → Leaves: which schedules are worth measuring, by an estimate of what they move and compute.

The estimate ranks, it does not forecast: leaves become templates, and the search measures them for real.
"""

from ._beam import CostPolicy, Leaf, Legal, Policy, alone, beam, beginning, explained, leaves, legal
from ._cost import Cost, estimate
from ._faults import Faults

__all__ = [
    "Cost", "CostPolicy", "Faults", "Leaf", "Legal", "Policy", "alone", "beam", "beginning", "estimate", "explained",
    "leaves", "legal",
]  # fmt: skip
