"""Workloads of products with sparse matrices: rows without entries, one column, tails of every tile."""

from collections.abc import Sequence

from .._core import Cases
from .._core.cases import Sizes

_SIZES = (
    (1, 1, 1, 1), (2, 3, 5, 1), (3, 2, 2, 4), (5, 4, 9, 2), (7, 16, 30, 3), (16, 7, 64, 15), (17, 33, 90, 16),
    (8, 8, 64, 17), (31, 5, 100, 31), (4, 64, 33, 32), (64, 4, 200, 33), (33, 31, 257, 47), (2, 100, 150, 48),
    (100, 2, 99, 63), (9, 9, 81, 64), (12, 50, 333, 65), (50, 12, 41, 79), (3, 3, 20, 80), (20, 40, 160, 95),
    (40, 20, 7, 96), (6, 6, 36, 127), (11, 13, 50, 128), (13, 11, 75, 129), (1, 200, 300, 144), (200, 1, 40, 160),
    (10, 10, 1, 191), (25, 25, 125, 192), (5, 60, 61, 255), (60, 5, 222, 256), (14, 15, 16, 257), (5, 4, 0, 17),
    (5, 4, 9, 0),
)  # fmt: skip
"""Rows, columns, entries, width of what is dense."""
_NAMES = ("rows", "columns", "entries", "width")
_VERIFIED = [
    dict(zip(_NAMES, sizes, strict=True)) | {"index": "int32" if i % 2 else "int64"}
    for i, sizes in enumerate(_SIZES)
]
_TIMED: list[Sizes] = [
    {"rows": 20_000, "columns": 20_000, "entries": 200_000, "width": 64, "index": "int64"},
    {"rows": 5_000, "columns": 5_000, "entries": 250_000, "width": 256, "index": "int64"},
]
_PATTERN = {"crow": "index[rows + 1] sorted(0, entries + 1)", "col": "index[entries] index(columns)"}
_WHOLE = {"crow": "index[rows + 1] offsets(entries)", "col": "index[entries] index(columns)"}
_LEFT = {"acrow": "index[rows + 1] offsets(inner)", "acol": "index[inner] permutation"}
_RIGHT = {"bcrow": "index[inner + 1] offsets(most)", "bcol": "index[most] index(columns)"}
_FACTORS = {**_LEFT, "avalues": "float32[inner] normal", **_RIGHT, "bvalues": "float32[most] normal"}
"""Each row of the second factor is multiplied once, so that there are as many products as it has entries."""
_COUNTED = {
    "acrow": "index[rows + 1] sorted(0, left + 1)", "acol": "index[left] index(inner)",
    "bcrow": "index[inner + 1] sorted(0, most + 1)", "bcol": "index[most] index(columns)",
}  # fmt: skip
"""Rows of the second factor are multiplied any number of times, and some entries of both are in no row."""
_KEPT = {"rows": "rows", "inner": "columns", "most": "entries", "columns": "width", "index": "index"}


def _products(sizes: Sequence[Sizes]) -> list[Sizes]:
    return [
        {name: one[known] for name, known in _KEPT.items()} | {"ascending": True}
        for one in sizes
        if one["entries"] and one["width"]
    ]


def _counts(sizes: Sequence[Sizes]) -> list[Sizes]:
    return [
        {name: one[known] for name, known in (*_KEPT.items(), ("left", "width"))}
        for one in sizes
        if one["entries"] and one["width"]
    ]


CASES = (
    Cases(
        op="sparse_spmm",
        reference="spmm",
        arguments=_PATTERN | {"values": "float32[entries] normal", "x": "float32[columns, width] normal"},
        timed=_TIMED,
        verified=_VERIFIED,
    ),
    Cases(
        op="sparse_sddmm",
        reference="sddmm",
        arguments=_PATTERN | {"a": "float32[rows, width] normal", "b": "float32[columns, width] normal"},
        timed=_TIMED,
        verified=_VERIFIED,
    ),
    Cases(
        op="sparse_transpose",
        reference="transpose",
        arguments=_WHOLE | {"values": "float32[entries] normal"},
        timed=[{k: v for k, v in s.items() if k != "width"} for s in _TIMED],
        verified=[{k: v for k, v in s.items() if k != "width"} for s in _VERIFIED],
    ),
    Cases(
        op="sparse_spgemm",
        reference="spgemm",
        arguments=_FACTORS,
        timed=_products(_TIMED),
        verified=_products(_VERIFIED),
    ),
    Cases(
        op="sparse_products",
        reference="products",
        arguments=_COUNTED,
        timed=_counts(_TIMED),
        verified=_counts(_VERIFIED),
    ),
)
"""The cases of this family."""
