"""Group-sequential plan: after which blocks measurement may stop, and how much error each look may spend.

The probability of a wrong `improved` is divided equally among the looks (Bonferroni), so stopping at the first
conclusive look keeps the total within the contract's level, whatever the dependence between looks.
"""

from typing import Literal

LOOKS = (8, 12, 20, 40, 100, 240)
"""Blocks per workload after which measurement may stop. The last are for machines with two speeds or a noisy
neighbour, where one block means little; if blocks are long, a measurement's time limit ends it before."""
FIRST_LOOK = LOOKS[0]
"""Blocks per workload of the shortest measurement that decides, and of the shortest confirmation."""
PRESCREEN_BLOCKS = 3
"""Blocks per workload of a pre-screen against one baseline."""
SCREEN_BLOCKS = 5
"""Blocks per workload of a full screening."""
SIZES_BLOCKS = 3
"""Blocks per workload at another size, against one baseline."""
CONFIRM_LOOKS = (8, 40, 200)
"""Blocks per workload after which a confirmation may stop, each with an equal share of the level."""
CONFIRM_BLOCKS = CONFIRM_LOOKS[-1]
"""Blocks per workload of a full confirmation."""

REFUTER: Literal["refuter"] = "refuter"
"""Phase of the blocks on the confirm workload that refused an earlier candidate, before anything else is measured."""
WARM: Literal["warm"] = "warm"
"""Phase of the extra blocks with warm caches that a confirmed candidate gets if its contract requires cold ones."""
WARM_BLOCKS = 5


def share(blocks: int) -> float:
    """Return the part of the error that may be spent on a decision after this many blocks per workload.

    A measurement that ran out of time between two looks uses the share of the look it did not reach.

    Example:
        >>> share(8) == share(10) == 1 / len(LOOKS)
        True
    """
    return 1 / len(LOOKS) if blocks > 0 else 0.0


def is_look(blocks: int) -> bool:
    """Whether measurement may stop after this many blocks per workload."""
    return blocks in LOOKS
