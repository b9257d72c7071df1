"""TorchInductor's output code → candidates. `_harvest` gets the code, `_rewrite` makes it self-contained.

`_joint` parts a training step in two, and `_head` takes its loss head out.
"""

from ._harvest import DEADLINE_S, NO_STEP, Generated, Harvested, HarvestError, Parting, Partition, harvest
from ._rewrite import rewrite
from ._rewrite_step import rewrite_step

__all__ = [
    "DEADLINE_S", "NO_STEP", "Generated", "HarvestError", "Harvested", "Parting", "Partition", "harvest", "rewrite",
    "rewrite_step",
]  # fmt: skip
