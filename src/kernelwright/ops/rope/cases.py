"""Workloads of rotary embedding: decoding and prefill, grouped keys, partial heads, odd sizes."""

from .._core import Cases

_SIZES = (
    (1, 1, 1, 1, 1, 0), (1, 1, 2, 1, 1, 1), (2, 3, 1, 2, 3, 1), (1, 5, 2, 1, 7, 0), (3, 16, 2, 2, 8, 2),
    (1, 17, 4, 1, 15, 3),
    (2, 15, 1, 1, 16, 0), (1, 33, 3, 3, 17, 1), (4, 1, 8, 2, 32, 0), (1, 64, 2, 1, 31, 5), (2, 9, 4, 4, 33, 0),
    (1, 31, 6, 2, 40, 16), (5, 2, 3, 1, 48, 32), (1, 100, 1, 1, 64, 0), (2, 18, 5, 5, 20, 64), (1, 7, 2, 2, 127, 1),
    (1, 48, 4, 1, 4, 120), (2, 1, 1, 1, 2, 0), (1, 2, 5, 1, 9, 7),
    (3, 4, 2, 1, 24, 1), (1, 19, 3, 2, 63, 2), (2, 20, 1, 1, 65, 0), (1, 3, 16, 4, 12, 8), (6, 5, 2, 2, 5, 5),
    (1, 65, 2, 1, 47, 0), (1, 130, 1, 1, 10, 3), (2, 12, 3, 1, 80, 0), (0, 12, 3, 1, 80, 0),
)  # fmt: skip
"""Batch, length, heads, heads of keys, pairs that are turned, elements of a head that are not."""


def _sized(
    i: int, sizes: tuple[int, ...], dtype: str, table: str, interleaved: bool
) -> dict[str, int | str | bool]:
    names = ("batch", "length", "heads", "keys", "pairs", "rest")
    return {
        **dict(zip(names, sizes, strict=True)), "rows": sizes[1] + i % 3, "dtype": dtype, "table": table,
        "interleaved": interleaved,
    }  # fmt: skip


_VERIFIED = [_sized(i, sizes, "float32", "float32", bool(i % 2)) for i, sizes in enumerate(_SIZES)]
_VERIFIED += [
    _sized(i, sizes, "bfloat16", "float32" if i % 3 else "bfloat16", not i % 2)
    for i, sizes in enumerate(_SIZES)
]
_TIMED = [
    _sized(0, (1, 2048, 32, 8, 64, 0), "float32", "float32", False),
    _sized(0, (1, 512, 32, 8, 64, 0), "bfloat16", "float32", False),
    _sized(0, (2, 256, 16, 16, 32, 64), "float32", "float32", True),
]
CASES = (
    Cases(
        op="rope",
        reference="rope",
        arguments={
            "q": "dtype[batch, length, heads, 2 * pairs + rest] normal",
            "k": "dtype[batch, length, keys, 2 * pairs + rest] normal",
            "cos": "table[rows, pairs] uniform(-1, 1)",
            "sin": "table[rows, pairs] uniform(-1, 1)",
            "positions": "int64[batch, length] index(rows)",
        },
        timed=_TIMED,
        verified=_VERIFIED,
    ),
)
"""The cases of this family."""
