"""Context parallelism: attention over a sequence whose rows lie on several processes, forward and back.

| scheme | what moves |
|---|---|
| `ring` | keys and values go around, a block a step |
| `double_ring` | the same by rings of neighbours, and once a turn to the next ring |
| `all_gather` | keys and values of all to everyone at once |
| `ulysses` | rows for heads: each process has some heads of the whole sequence |
| `usp` | rows for heads among neighbours, rings across them |

Sequences are dealt in a zigzag, an early part and a late one to each, so that causal masks give all the same work.
"""

from ._links import Links
from ._parallel import ContextParallel

__all__ = ["ContextParallel", "Links"]
