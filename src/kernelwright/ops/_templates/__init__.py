"""Five templates under many kernels, as C++ headers; a family's `kernel.cpp` is a client of one.

| folder | what it computes | clients |
|---|---|---|
| `flash` | softmax of scores, times values, by tiles under ranges of keys; gradients; decode | attention |
| `gathered_gemm` | rows of a plan times a weight, gathered and scattered; pairs, bytes | experts, products |
| `lowbit` | weights of 1 to 8 bits, unpacked, multiplied and scaled in registers | low-bit linear layers |
| `segments` | keys to an order and offsets | experts |
| `stream_reduce` | tiles of `X·Cᵀ`, folded as they are made and never stored | k-means, logits, losses |
"""
