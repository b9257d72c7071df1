"""TorchInductor's output code → candidates. `_harvest` gets the code, `_rewrite` makes it self-contained."""

from ._harvest import DEADLINE_S, Generated, Harvested, HarvestError, harvest
from ._rewrite import rewrite

__all__ = ["DEADLINE_S", "Generated", "HarvestError", "Harvested", "harvest", "rewrite"]
