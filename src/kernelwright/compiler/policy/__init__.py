"""Graph → Leaves: schedules worth measuring, chosen by an estimate of their traffic and arithmetic.

The estimate only ranks: leaves become templates, and the search measures them.
"""

from ._beam import CostPolicy, Leaf, Legal, Policy, alone, beam, beginning, explained, leaves, legal
from ._cost import Cost, Estimate, estimate
from ._faults import Faults
from ._products import multiplications

__all__ = [
    "Cost", "CostPolicy", "Estimate", "Faults", "Leaf", "Legal", "Policy", "alone", "beam", "beginning", "estimate",
    "explained", "leaves", "legal", "multiplications",
]  # fmt: skip
