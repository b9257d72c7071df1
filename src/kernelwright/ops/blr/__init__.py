"""Linear layers with structured weights: Monarch and BLAST matrices, of two factors of blocks.

| name | what it computes |
|---|---|
| `monarch(x, first, second)` | rows times a Monarch matrix: block-diagonal, permuted, block-diagonal |
| `blast(x, right, scale, left)` | rows times a BLAST matrix: blocks that share factors, each with a scale of its own |
| `MonarchLinear`, `BlastLinear` | modules; `from_linear` makes them of a dense layer, with a report of the error |
| `monarch_factors`, `blast_factors` | factors of a dense weight |

The kernel multiplies by both factors while what lies between is in the second cache, and stores no permutation. Where a
gradient is asked for, torch computes the formula.
"""

from ._convert import Report, blast_factors, monarch_factors
from ._functions import KERNEL, blast, monarch
from ._layers import BlastLinear, MonarchLinear

__all__ = [
    "KERNEL",
    "BlastLinear",
    "MonarchLinear",
    "Report",
    "blast",
    "blast_factors",
    "monarch",
    "monarch_factors",
]
