"""Workloads of k-means.

The judge holds labels to equality, so these are of small integers, whose distances are exact: ties are ties, and the
first wins in reference and kernel. `tests/ops/kmeans` holds labels on real numbers by the gap in distance.
"""

from .._core import Cases
from .._core.cases import Sizes

_ODD = (
    (1, 1, 1), (1, 5, 3), (2, 2, 2), (3, 1, 7), (5, 3, 1), (7, 16, 16), (11, 17, 15), (12, 32, 16), (13, 33, 17),
    (16, 8, 31), (24, 64, 32), (25, 65, 33), (31, 100, 3), (64, 7, 100), (97, 31, 192), (100, 1000, 2), (127, 15, 520),
    (128, 128, 128), (200, 2, 1), (211, 12, 511), (255, 48, 64), (256, 47, 65), (257, 31, 1025), (300, 300, 8),
    (333, 96, 77), (500, 16, 784), (511, 9, 19), (512, 130, 24), (999, 10, 10), (1000, 4, 600), (1031, 67, 5),
    (2048, 24, 40), (3001, 3, 2), (4099, 18, 12), (0, 5, 3),
)  # fmt: skip
"""Rows, clusters and columns: ones, primes, one next to each width of a tile, long rows, more clusters than rows."""

_TYPES = ("float32", "bfloat16", "float32", "float16")
_LAYOUTS = ("contiguous", "transposed", "strided")
_VERIFIED: list[Sizes] = [
    {"rows": n, "clusters": k, "columns": d, "dtype": _TYPES[i % 4], "layout": _LAYOUTS[i % 3]}
    for i, (n, k, d) in enumerate(_ODD)
]
_TENSORS = {
    "x": "dtype[rows, columns] layout integers(-9, 10)",
    "centroids": "dtype[clusters, columns] integers(-9, 10)",
}
_APART = {
    "x": _TENSORS["x"], "centroids": "float32[clusters, columns] integers(-9, 10)",
    "shift": "float32[columns] integers(-3, 4)",
}  # fmt: skip
"""Centroids that are finer than the rows, as an estimator has them, and what is subtracted from each row."""

ASSIGN = Cases(
    op="kmeans_assign",
    reference="assign",
    arguments=_TENSORS,
    timed=[
        {"rows": 50_000, "clusters": 64, "columns": 32, "dtype": "float32", "layout": "contiguous"},
        {"rows": 20_000, "clusters": 256, "columns": 64, "dtype": "float32", "layout": "contiguous"},
        {"rows": 4_000, "clusters": 1000, "columns": 100, "dtype": "bfloat16", "layout": "contiguous"},
    ],
    verified=_VERIFIED,
    regimes=(),
)
SHIFTED = Cases(
    op="kmeans_assign", reference="assign", arguments=_APART, timed=ASSIGN.timed[1:2], verified=_VERIFIED, regimes=(),
)  # fmt: skip
STEP = Cases(
    op="kmeans_step", reference="step", arguments=_TENSORS, timed=ASSIGN.timed[:2], verified=_VERIFIED, regimes=(),
)  # fmt: skip
WEIGHTED = Cases(
    op="kmeans_step", reference="step", arguments=_APART | {"weights": "float32[rows] integers(0, 4)"},
    timed=ASSIGN.timed[1:2], verified=_VERIFIED, regimes=(),
)  # fmt: skip

CASES = (ASSIGN, SHIFTED, STEP, WEIGHTED)
"""The cases of this family."""
