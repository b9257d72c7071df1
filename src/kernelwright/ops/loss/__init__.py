"""Losses over large vocabularies whose logits are never stored whole.

| name | what it computes |
|---|---|
| `linear_cross_entropy(x, weight, target)` | cross-entropy of a linear layer's logits, with gradients |
"""

from ._function import linear_cross_entropy
from ._ops import KERNEL

__all__ = ["KERNEL", "linear_cross_entropy"]
