"""When measurement looks at its blocks, and how much of the error each look may spend.

The probability of a wrong `improved` is divided equally among the looks (Bonferroni), so stopping at the first
look that is sure keeps the whole within the contract's level, whatever the dependence between looks.
"""

from typing import Literal

LOOKS = (8, 12, 20, 40, 100, 240)
"""Blocks a workload after which measurement may stop. The last are for machines with two speeds or a neighbour, where
one block says little; a measurement's seconds end it before where blocks are long."""
PRESCREEN_BLOCKS = 3
"""Blocks a workload of a first look against one baseline."""
SCREEN_BLOCKS = 5
"""Blocks a workload of a full screening."""
SIZES_BLOCKS = 3
"""Blocks a workload of a look at another size, against one baseline."""
CONFIRM_LOOKS = (8, 40, 200)
"""Blocks a workload after which a confirmation may stop, each at its equal share of the level."""
CONFIRM_BLOCKS = CONFIRM_LOOKS[-1]
"""Blocks a workload of a full confirmation."""

REFUTER: Literal["refuter"] = "refuter"
"""Phase of the blocks on the confirm workload that refused an earlier candidate, before all else is measured."""
BESIDE: Literal["warm"] = "warm"
"""Phase of the blocks that a confirmed candidate gets with warm caches where its contract has them cold."""
BESIDE_BLOCKS = 5


def share(blocks: int) -> float:
    """Return the part of the error that may be spent on a decision after so many blocks a workload.

    A measurement that ran out of time between two looks uses the share of the look it did not reach.

    Example:
        >>> share(8) == share(10) == 1 / len(LOOKS)
        True
    """
    return 1 / len(LOOKS) if blocks > 0 else 0.0


def is_look(blocks: int) -> bool:
    """Tell whether measurement may stop after so many blocks a workload."""
    return blocks in LOOKS
