"""Nearest neighbours: of each row the nearest of a set of points, exactly, without a matrix of distances.

| name | what it computes |
|---|---|
| `nearest(x, points, count)` | the nearest points by squared distance, inner product or cosine, and how near they are |
"""

from ._op import KERNEL, nearest

__all__ = ["KERNEL", "nearest"]
