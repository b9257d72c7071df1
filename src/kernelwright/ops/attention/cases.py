"""Workloads of attention: one next to each width of a tile, panel and block, grouped heads, ranges and pages at random.

Of gradients, results and log-sum-exps are any numbers: what comes of those is as well defined as of forward's.
"""

from dataclasses import replace

from .._core import Cases

_ODD = (
    (1, 1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 2, 3, 2), (2, 1, 2, 3, 1, 8, 5), (1, 2, 1, 5, 7, 16, 16),
    (1, 1, 1, 11, 31, 17, 15), (2, 2, 2, 12, 32, 32, 32), (1, 1, 3, 13, 33, 31, 33), (3, 1, 1, 16, 64, 64, 64),
    (1, 1, 1, 17, 63, 48, 47), (1, 2, 4, 1, 65, 64, 64), (2, 1, 8, 1, 100, 128, 128), (1, 3, 1, 2, 97, 20, 100),
    (1, 1, 2, 25, 128, 40, 24), (1, 1, 1, 31, 129, 65, 63), (2, 1, 1, 33, 130, 80, 80),
    (1, 4, 1, 24, 160, 96, 96), (1, 1, 4, 47, 48, 128, 64), (1, 2, 2, 64, 64, 33, 129),
    (1, 1, 1, 65, 200, 112, 112), (1, 1, 1, 97, 257, 256, 256), (1, 1, 1, 100, 300, 1, 64),
    (1, 1, 1, 127, 511, 32, 1), (2, 2, 1, 128, 127, 24, 24), (1, 1, 2, 193, 255, 64, 64),
    (1, 1, 1, 385, 70, 32, 32), (1, 1, 1, 60, 513, 64, 64), (1, 1, 1, 20, 1025, 32, 48),
    (1, 1, 7, 55, 90, 48, 16), (1, 2, 1, 0, 9, 8, 8), (1, 1, 1, 6, 0, 8, 8), (4, 1, 2, 9, 19, 72, 72),
    (1, 1, 1, 300, 299, 16, 16),
)  # fmt: skip
"""Batch, kv heads, heads of each, rows, keys, inner, columns."""
_TYPES = ("float32", "float32", "bfloat16", "float16")
_OPTIONS: tuple[dict[str, float], ...] = ({}, {"scale": 0.3}, {"scale": 0.2, "soft_cap": 3.0})


def _sized(i: int, sizes: tuple[int, ...], **more: int | float | str) -> dict[str, int | float | str | bool]:
    names = ("batch", "groups", "each", "rows", "keys", "inner", "columns")
    return {**dict(zip(names, sizes, strict=True)), "dtype": _TYPES[i % 4], **more}


_ARGUMENTS = {
    "q": "dtype[batch, groups * each, rows, inner]",
    "k": "dtype[batch, groups, keys, inner]",
    "v": "dtype[batch, groups, keys, columns]",
}
WHOLE = Cases(
    op="attention",
    reference="attention",
    arguments={
        **_ARGUMENTS,
        "sinks": "float32[groups * each] normal(2)",
        "slopes": "float32[groups * each] uniform(0, 0.1)",
    },
    timed=[
        _sized(0, (1, 4, 1, 512, 512, 64, 64), scale=0.125),
        _sized(0, (2, 2, 2, 160, 1300, 64, 64), scale=0.25, soft_cap=3.0),
    ],
    verified=[_sized(i, sizes, **_OPTIONS[i % 3]) for i, sizes in enumerate(_ODD)],
)
MASKED = Cases(
    op="attention",
    reference="attention",
    arguments={**_ARGUMENTS, "ranges": "int32[masks, heads, rows, many, 2] integers(-3, keys + 3)"},
    timed=[
        _sized(0, (1, 4, 1, 512, 512, 64, 64), scale=0.125, many=1, masks=1, heads=1),
        _sized(0, (2, 2, 2, 32, 700, 64, 64), scale=0.25, soft_cap=3.0, many=3, masks=2, heads=4),
    ],
    verified=[
        _sized(i, sizes, **_OPTIONS[i % 3], many=1 + i % 3, masks=sizes[0] if i % 2 else 1,
               heads=sizes[1] * sizes[2] if i % 4 > 1 else 1)
        for i, sizes in enumerate(_ODD)
    ],
)  # fmt: skip

_CACHES = (
    (1, 1, 1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 2, 2, 1), (2, 1, 2, 16, 4, 8, 5, 2), (1, 2, 1, 16, 5, 16, 16, 3),
    (3, 1, 3, 7, 9, 17, 15, 4), (2, 2, 4, 32, 6, 32, 32, 5), (1, 1, 5, 33, 3, 31, 33, 2),
    (2, 3, 6, 15, 8, 64, 64, 3), (1, 1, 7, 17, 8, 48, 47, 8), (4, 2, 8, 16, 12, 64, 64, 9),
    (2, 1, 8, 1, 40, 128, 128, 33), (1, 3, 1, 2, 50, 20, 100, 48), (1, 1, 9, 64, 4, 40, 24, 4),
    (2, 2, 2, 31, 9, 65, 63, 5), (5, 1, 1, 128, 7, 80, 80, 1), (1, 4, 16, 8, 16, 96, 96, 16),
    (3, 1, 4, 65, 5, 128, 64, 2), (1, 2, 2, 129, 3, 33, 129, 3), (2, 1, 1, 100, 6, 112, 112, 7),
    (1, 1, 1, 256, 5, 256, 256, 5), (1, 1, 12, 3, 30, 1, 64, 30), (2, 1, 1, 127, 2, 32, 1, 2),
    (3, 2, 1, 12, 20, 24, 24, 11), (1, 1, 2, 512, 5, 64, 64, 5), (8, 1, 1, 5, 17, 32, 32, 6),
    (1, 1, 4, 1024, 3, 32, 48, 3), (2, 1, 7, 11, 13, 48, 16, 13), (1, 8, 4, 6, 9, 8, 8, 10),
    (1, 1, 3, 2048, 2, 72, 72, 2), (4, 1, 2, 9, 19, 72, 72, 3), (2, 5, 1, 14, 4, 16, 16, 8),
)  # fmt: skip
"""Batch, kv heads, heads of each, positions of a page, pages, inner, columns, pages of a sequence."""


def _cached(i: int, sizes: tuple[int, ...], **more: int | float | str) -> dict[str, int | float | str | bool]:
    names = ("batch", "groups", "each", "size", "count", "inner", "columns", "most")
    return {**dict(zip(names, sizes, strict=True)), "dtype": _TYPES[i % 4], "window": i % 3 * 20, **more}


_PAGED = {
    "q": "dtype[batch, groups * each, inner]",
    "k_cache": "dtype[count, size, groups, inner]",
    "v_cache": "dtype[count, size, groups, columns]",
    "lengths": "int32[batch] integers(0, size * most + 1)",
    "pages": "int32[batch, most] integers(0, count)",
}
DECODE = Cases(
    op="attention_decode",
    reference="decode",
    arguments=_PAGED,
    timed=[
        _cached(0, (1, 2, 4, 64, 40, 128, 128, 40), scale=0.09),
        _cached(0, (5, 2, 4, 48, 40, 72, 64, 24), scale=0.25, soft_cap=3.0, window=500),
    ],
    verified=[_cached(i, sizes, **_OPTIONS[i % 3]) for i, sizes in enumerate(_CACHES)],
)
_SCALES = ("k_scales", "v_scales")
QUANTIZED = Cases(
    op="attention_decode",
    reference="decode",
    arguments={
        **_PAGED,
        "k_cache": "int8[count, size, groups, inner] integers(-127, 128)",
        "v_cache": "int8[count, size, groups, columns] integers(-127, 128)",
        "k_scales": "float32[count, size, groups] uniform(0.001, 0.02)",
        "v_scales": "float32[count, size, groups] uniform(0.001, 0.02)",
    },
    timed=[
        _cached(0, (1, 2, 4, 64, 40, 128, 128, 40), scale=0.09),
        _cached(0, (5, 2, 4, 48, 40, 72, 64, 24), scale=0.25, soft_cap=3.0, window=500),
    ],
    verified=[_cached(i, sizes, **_OPTIONS[i % 3]) for i, sizes in enumerate(_CACHES)],
    no_infinity=_SCALES,
)

_BLOCKS = tuple(
    (*sizes[:5], 32 * (1 + sizes[5] % 5), 32 * (1 + sizes[6] % 4), sizes[7]) for sizes in _CACHES
)  # fmt: skip
NIBBLES = Cases(
    op="attention_decode",
    reference="decode",
    arguments={
        **_PAGED,
        "k_cache": "uint8[count, size, groups, inner // 2] integers(0, 256)",
        "v_cache": "uint8[count, size, groups, columns // 2] integers(0, 256)",
        "k_scales": "bfloat16[count, size, groups, inner // 32] uniform(0.01, 0.2)",
        "v_scales": "bfloat16[count, size, groups, columns // 32] uniform(0.01, 0.2)",
    },
    timed=[
        _cached(0, (1, 2, 4, 64, 40, 128, 128, 40), scale=0.09),
        _cached(0, (5, 2, 4, 48, 40, 96, 64, 24), scale=0.25, soft_cap=3.0, window=500),
    ],
    verified=[_cached(i, sizes, **_OPTIONS[i % 3]) for i, sizes in enumerate(_BLOCKS)],
    no_infinity=_SCALES,
)
BYTES = replace(
    NIBBLES,
    arguments={
        **NIBBLES.arguments,
        "k_cache": "int8[count, size, groups, inner] integers(-127, 128)",
        "v_cache": "int8[count, size, groups, columns] integers(-127, 128)",
        "k_scales": "bfloat16[count, size, groups, inner // 32] uniform(0.001, 0.02)",
        "v_scales": "bfloat16[count, size, groups, columns // 32] uniform(0.001, 0.02)",
    },
)

_RIGHT, _SUMS = "dtype[batch, groups * each, rows, columns]", "float32[batch, groups * each, rows]"
_GIVEN = {
    "gradient": _RIGHT, "lse_gradient": _SUMS, **_ARGUMENTS, "out": _RIGHT, "lse": f"{_SUMS} uniform(4, 6)",
}  # fmt: skip
"""The log-sum-exps are not of the scores, and the judge calls the smallest timed workload with queries that are four
times as large, or 64 larger, too: it has a soft cap, without which exponentials there are beyond float32, or one in a
sum is all of it, as none is of log-sum-exps that are its own."""
GRADIENTS = Cases(
    op="attention_gradients",
    reference="gradients_as_given",
    arguments={**_GIVEN, "sinks": WHOLE.arguments["sinks"], "slopes": WHOLE.arguments["slopes"]},
    timed=[
        _sized(0, (1, 4, 1, 256, 256, 64, 64), scale=0.125),
        _sized(0, (2, 2, 2, 60, 200, 64, 64), scale=0.25, soft_cap=3.0),
    ],
    verified=[_sized(i, sizes, **_OPTIONS[1 + i % 2]) for i, sizes in enumerate(_ODD)],
    regimes=("special",),
    no_infinity=("lse",),  # minus infinity says that a row sees no key, which these do
)
MASKED_GRADIENTS = Cases(
    op="attention_gradients",
    reference="gradients_as_given",
    arguments={**_GIVEN, "ranges": MASKED.arguments["ranges"]},
    timed=[_sized(0, (1, 4, 1, 256, 256, 64, 64), scale=0.25, soft_cap=3.0, many=2, masks=1, heads=1)],
    verified=[
        _sized(i, sizes, **_OPTIONS[1 + i % 2], many=1 + i % 3, masks=sizes[0] if i % 2 else 1,
               heads=sizes[1] * sizes[2] if i % 4 > 1 else 1)
        for i, sizes in enumerate(_ODD)
    ],
    regimes=("special",),
    no_infinity=("lse",),  # minus infinity says that a row sees no key, which these do
)  # fmt: skip

CASES = (WHOLE, MASKED, DECODE, QUANTIZED, NIBBLES, BYTES, GRADIENTS, MASKED_GRADIENTS)
"""The cases of this family."""
