"""Workloads of structured products: one block and many, ranks of ones and of tiles, groups of three and seven."""

from .._core import Cases

_MONARCH = (
    (1, 1, 1, 1, 1, 1), (1, 4, 4, 64, 16, 64), (2, 2, 3, 7, 3, 5), (3, 4, 4, 40, 17, 33), (4, 3, 2, 5, 16, 40),
    (5, 8, 8, 16, 2, 16), (6, 1, 4, 33, 31, 20), (7, 5, 1, 12, 9, 70), (8, 2, 2, 32, 32, 32),
    (9, 16, 16, 8, 1, 8), (11, 4, 8, 24, 8, 12), (12, 7, 7, 9, 4, 11), (13, 2, 16, 50, 3, 10),
    (15, 4, 2, 31, 48, 65), (16, 6, 4, 64, 5, 16), (17, 3, 3, 100, 33, 34), (19, 2, 4, 128, 64, 48),
    (23, 9, 2, 10, 6, 7), (24, 4, 16, 16, 4, 17), (25, 1, 2, 70, 20, 9), (31, 4, 4, 36, 12, 36),
    (33, 5, 5, 13, 7, 19), (36, 2, 8, 20, 10, 33), (37, 3, 4, 47, 15, 16), (48, 8, 2, 6, 17, 90),
    (61, 4, 3, 21, 13, 26), (64, 2, 2, 15, 1, 100), (97, 4, 4, 16, 16, 15), (130, 2, 4, 33, 8, 24),
    (200, 3, 2, 14, 5, 31), (257, 1, 1, 17, 17, 17), (0, 4, 4, 16, 4, 16),
)  # fmt: skip
"""Rows, blocks, groups, inputs of a block, rank, outputs of a group."""
_NAMES = ("rows", "blocks", "groups", "inner", "rank", "each")
_VERIFIED = [dict(zip(_NAMES, sizes, strict=True)) for sizes in _MONARCH]
_TIMED = [
    dict(zip(_NAMES, sizes, strict=True)) for sizes in ((1, 4, 4, 256, 64, 256), (64, 4, 4, 192, 48, 256))
]
CASES = (
    Cases(
        op="blr_monarch", reference="monarch", timed=_TIMED, verified=_VERIFIED,
        arguments={
            "x": "float32[rows, blocks * inner]",
            "first": "float32[blocks, (groups * rank + 31) // 32, inner, 32] normal(0.2)",
            "second": "float32[groups, (each + 31) // 32, blocks * rank, 32] normal(0.2)",
        },
    ),
    Cases(
        op="blr_blast", reference="blast", timed=_TIMED, verified=_VERIFIED,
        arguments={
            "x": "float32[rows, blocks * inner]",
            "right": "float32[blocks, (rank + 31) // 32, inner, 32] normal(0.2)",
            "scale": "float32[groups, blocks, rank]",
            "left": "float32[groups, (each + 31) // 32, rank, 32] normal(0.2)",
        },
    ),
)  # fmt: skip
"""The cases of this family."""
