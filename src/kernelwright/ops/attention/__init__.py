"""Attention under masks that are specs, for training, for documents side by side, and against a cache.

| name | what it computes |
|---|---|
| `attention(q, k, v, mask)` | softmax of scaled scores, times values; grouped heads, caps, sinks, biases; gradients |
| `varlen(q, k, v, q_ends, k_ends)` | the same of sequences that lie one after another |
| `decode(q, k_cache, v_cache, lengths)` | one token of each sequence against its cache, paged or not, int8 or not |
| `quantize(x)` | a cache as int8 or int4 with scales |
| `context_parallel` | the same of sequences whose rows lie on several processes |
| `masks` | specs: full, causal, windows, documents, prefixes, block-sparse and others |
"""

from . import masks
from ._cache import quantize
from ._decode import decode
from ._functions import attention, varlen
from ._ops import KERNEL

__all__ = ["KERNEL", "attention", "decode", "masks", "quantize", "varlen"]
