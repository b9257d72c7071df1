"""Workloads of nearest neighbours.

Numbers are small integers, so that products and squared distances are exact, equal ones are equal, and the first wins
in reference and kernel; points of one column are equal most of the time. `tests/ops/neighbours` holds real numbers,
and cosines, to float64.
"""

from .._core import Cases

_ODD = (
    (1, 1, 1, 1), (1, 2, 3, 2), (2, 5, 1, 3), (3, 3, 3, 3), (5, 12, 16, 1), (7, 13, 17, 13), (8, 11, 15, 4),
    (12, 100, 31, 10), (13, 33, 33, 33), (15, 1000, 8, 1), (16, 64, 64, 7), (17, 257, 2, 50), (25, 95, 47, 1),
    (31, 999, 5, 20), (32, 32, 32, 32), (33, 31, 65, 2), (48, 97, 100, 5), (63, 256, 12, 128), (64, 255, 128, 1),
    (65, 513, 3, 64), (97, 1023, 40, 9), (100, 7, 300, 3), (127, 2048, 9, 1), (128, 129, 130, 12), (200, 50, 512, 1),
    (255, 300, 24, 8), (256, 257, 16, 1), (257, 256, 20, 16), (300, 777, 33, 40), (513, 40, 7, 6), (700, 60, 9, 60),
    (1, 5000, 64, 100), (4, 3000, 40, 20), (2, 70, 784, 5), (0, 12, 16, 3),
)  # fmt: skip
"""Rows, points, columns, neighbours."""
_TYPES = ("float32", "float32", "bfloat16", "float16")
_LAYOUTS = ("contiguous", "transposed", "strided")

NEAREST = Cases(
    op="neighbours_nearest",
    reference="nearest",
    arguments={
        "x": "dtype[rows, columns] layout integers(-5, 6)",
        "points": "dtype[many, columns] layout integers(-5, 6)",
    },
    timed=[
        {
            "rows": 512,
            "many": 20_000,
            "columns": 64,
            "count": 10,
            "metric": 0,
            "dtype": "float32",
            "layout": "contiguous",
        },
        {
            "rows": 200,
            "many": 3000,
            "columns": 20,
            "count": 30,
            "metric": 1,
            "dtype": "float32",
            "layout": "contiguous",
        },
        {
            "rows": 100,
            "many": 1000,
            "columns": 3,
            "count": 10,
            "metric": 0,
            "dtype": "float32",
            "layout": "contiguous",
        },
        {
            "rows": 3,
            "many": 2000,
            "columns": 40,
            "count": 20,
            "metric": 0,
            "dtype": "float32",
            "layout": "contiguous",
        },
    ],
    verified=[
        {
            "rows": n,
            "many": m,
            "columns": d,
            "count": k,
            "metric": (0, 1, 0)[i % 3],
            "dtype": _TYPES[i % 4],
            "layout": _LAYOUTS[i // 2 % 3],
        }
        for i, (n, m, d, k) in enumerate(_ODD)
    ],
    regimes=(),
)
CASES = (NEAREST,)
"""The cases of this family."""
