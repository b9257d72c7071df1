"""Attention under masks that are specs, for training, for documents side by side, and against a cache.

| name | what it computes |
|---|---|
| `attention(q, k, v, mask)` | softmax of scaled scores, times values; grouped heads, caps, sinks, biases; gradients |
| `masks` | specs: full, causal, windows, documents, prefixes, block-sparse and others |
"""

from . import masks
from ._functions import attention
from ._ops import KERNEL

__all__ = ["KERNEL", "attention", "masks"]
