"""Candidate → Timing → Decision: is it faster, by how much, how sure?

`Bench` measures paired blocks in workers. `decide` is a pure function of the recorded blocks. `gates` checks
the blocks for signs of cheating.

Covers: see docs/acceptance.md, "Covers".
Does not cover: correctness beyond the outputs of timed calls; that is `verify`.
"""

from ._bench import Bench
from ._block_runner import Phase
from ._decide import decide, left_out, refuted_before, settled, worth_confirming
from ._gates import gates
from ._interval import Limits, limits
from ._sequential import FIRST_LOOK
from ._startup import CANDIDATE

__all__ = [
    "CANDIDATE",
    "FIRST_LOOK",
    "Bench",
    "Limits",
    "Phase",
    "decide",
    "gates",
    "left_out",
    "limits",
    "refuted_before",
    "settled",
    "worth_confirming",
]
