"""Four templates under many kernels, as C++ headers; a family's `kernel.cpp` is a client of one.

| folder | what it computes | clients |
|---|---|---|
| `stream_reduce` | tiles of `X·Cᵀ`, folded as they are made and never stored | k-means, logits, losses |
"""
