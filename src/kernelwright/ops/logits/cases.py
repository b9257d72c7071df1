"""Workloads of logits.

Numbers are small integers, so that logits are exact, equal ones are equal, and the first wins in reference and kernel.
"""

from .._core import Cases

_ODD = (
    (1, 1, 1, 1), (1, 2, 3, 2), (2, 5, 1, 3), (3, 3, 3, 3), (5, 12, 16, 1), (7, 13, 17, 13), (8, 11, 15, 4),
    (12, 100, 31, 10), (13, 33, 33, 33), (15, 1000, 8, 1), (16, 64, 64, 7), (17, 257, 2, 50), (25, 95, 47, 1),
    (31, 999, 5, 20), (32, 32, 32, 32), (33, 31, 65, 2), (48, 97, 100, 5), (63, 256, 12, 256), (64, 255, 128, 1),
    (65, 513, 3, 64), (97, 1023, 40, 9), (100, 7, 300, 3), (127, 2048, 9, 1), (128, 129, 130, 12), (200, 50, 512, 1),
    (255, 300, 24, 8), (256, 257, 16, 1), (257, 256, 20, 16), (300, 777, 33, 40), (513, 40, 7, 6),
    (1, 5000, 64, 100), (0, 12, 16, 3),
)  # fmt: skip
"""Rows, vocabulary, columns, tokens that are kept."""
_TYPES = ("float32", "float32", "bfloat16", "float16")

TOP = Cases(
    op="logits_top",
    reference="top",
    arguments={
        "x": "dtype[rows, columns] integers(-3, 4)",
        "weight": "dtype[vocabulary, columns] integers(-2, 3)",
        "bias": "float32[vocabulary] integers(-9, 10)",
    },
    timed=[{"rows": 256, "vocabulary": 8192, "columns": 64, "count": 8, "dtype": "float32"}],
    verified=[
        {"rows": n, "vocabulary": v, "columns": d, "count": k, "dtype": _TYPES[i % 4]}
        for i, (n, v, d, k) in enumerate(_ODD)
    ],
)
CASES = (TOP,)
"""The cases of this family."""
