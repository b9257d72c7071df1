"""Workloads of low-bit linear layers.

Codes are any bytes, since any are codes. Rows on `int8` are integers whose largest is as good as always 9, so that no
quotient lies between two codes; `tests/ops/lowbit` has real numbers.
"""

from .._core import Cases

_ODD = (
    (1, 1, 1, 32), (1, 64, 32, 32), (1, 65, 33, 32), (1, 63, 31, 64), (1, 128, 256, 64), (1, 200, 515, 128),
    (1, 17, 1000, 32), (1, 130, 96, 96), (2, 64, 64, 32), (2, 3, 5, 32), (3, 66, 257, 256), (3, 31, 320, 160),
    (4, 64, 128, 32), (4, 127, 129, 64), (5, 16, 100, 32), (6, 33, 65, 32), (7, 70, 600, 352), (8, 192, 64, 64),
    (9, 40, 224, 224), (12, 1, 70, 32), (13, 129, 48, 32), (16, 64, 255, 64), (17, 100, 1, 32), (31, 5, 33, 32),
    (32, 96, 32, 32), (33, 96, 96, 32), (37, 15, 512, 512), (64, 16, 128, 128), (65, 65, 65, 32), (67, 80, 40, 64),
    (0, 64, 64, 32),
)  # fmt: skip
"""Rows, outputs, inner, group: ones, primes, one next to a tile, a panel, a block of rows; groups longer than a row."""

_CODES = "uint8[(outputs + 63) // 64, (inner + 31) // 32, 4, bits, 64] integers(0, 256)"
_BESIDE = "[(outputs + 63) // 64, (inner + group - 1) // group, 64]"
_NO_INFINITY = ("scales",)
_X, _SCALES, _BIAS = "dtype[rows, inner]", f"scale_dtype{_BESIDE} uniform(0.01, 0.1)", "dtype[outputs]"


def _workloads(
    bits: tuple[int, ...], exponent: int = 0, **more: int | bool
) -> list[dict[str, int | str | bool]]:
    """Return the odd sizes, with each of the bits, dtypes and dtypes of scales in turn."""
    dtypes, scales = ("float32", "bfloat16"), ("float32", "bfloat16", "float16")
    return [
        {
            "rows": m, "outputs": n, "inner": k, "group": g, "bits": bits[i % len(bits)], "exponent": exponent,
            "dtype": dtypes[i // len(bits) % 2], "scale_dtype": scales[i % 3], **more,
        }
        for i, (m, n, k, g) in enumerate(_ODD)
    ]  # fmt: skip


def _timed(
    rows: int, bits: int, dtype: str, exponent: int = 0, **more: int | bool
) -> dict[str, int | str | bool]:
    return {
        "rows": rows, "outputs": 1024, "inner": 2048, "group": 128, "bits": bits, "exponent": exponent,
        "dtype": dtype, "scale_dtype": "bfloat16", **more,
    }  # fmt: skip


INTEGERS = Cases(
    op="lowbit_linear",
    reference="linear",
    arguments={"x": _X, "codes": _CODES, "scales": _SCALES, "bias": _BIAS},
    timed=[
        _timed(1, 4, "float32", zero=8),
        _timed(1, 8, "bfloat16", zero=128),
        _timed(1, 3, "float32", zero=4),
        _timed(32, 4, "bfloat16", zero=8),
    ],
    verified=_workloads((1, 2, 3, 4, 5, 6, 7, 8), zero=1),
    no_infinity=_NO_INFINITY,
)
ZEROS = Cases(
    op="lowbit_linear",
    reference="linear",
    arguments={"x": _X, "codes": _CODES, "scales": _SCALES, "zeros": f"uint8{_BESIDE} integers(0, 16)"},
    timed=[_timed(1, 4, "float32"), _timed(8, 8, "bfloat16")],
    verified=_workloads((4, 8, 3)),
    no_infinity=_NO_INFINITY,
)
INT8 = Cases(
    op="lowbit_linear",
    reference="linear",
    arguments={"x": f"{_X} integers(-9, 10)", "codes": _CODES, "scales": _SCALES},
    timed=[_timed(1, 4, "float32", zero=8, int8=True), _timed(32, 8, "float32", zero=128, int8=True)],
    verified=_workloads((4, 8, 2), zero=2, int8=True),
    regimes=(),
)
FP4 = Cases(
    op="lowbit_linear",
    reference="linear",
    arguments={"x": _X, "codes": _CODES, "scales": _SCALES},
    timed=[_timed(1, 4, "float32", 2, zero=0), _timed(16, 4, "bfloat16", 2, zero=0)],
    verified=_workloads((4, 5, 6), 2, zero=0),
    no_infinity=_NO_INFINITY,
)
FP8 = Cases(
    op="lowbit_linear",
    reference="linear",
    arguments={"x": _X, "codes": _CODES, "scales": _SCALES},
    timed=[_timed(1, 8, "float32", 4, zero=0), _timed(16, 8, "bfloat16", 4, zero=0)],
    verified=_workloads((8, 6, 7), 4, zero=0),
    no_infinity=_NO_INFINITY,
)
MINIMA = Cases(
    op="lowbit_linear",
    reference="linear",
    arguments={"x": _X, "codes": _CODES, "scales": _SCALES, "minima": f"scale_dtype{_BESIDE} normal(0.3)"},
    timed=[_timed(1, 4, "float32", zero=0), _timed(8, 5, "bfloat16", zero=0)],
    verified=_workloads((4, 5, 2), zero=0),
    no_infinity=(*_NO_INFINITY, "minima"),
)
SIXTEENS = Cases(
    op="lowbit_linear",
    reference="linear",
    arguments={"x": _X, "codes": _CODES, "scales": _SCALES, "minima": f"scale_dtype{_BESIDE} normal(0.3)"},
    timed=[
        {**_timed(1, 6, "float32", zero=32), "group": 16},
        {**_timed(8, 3, "float32", zero=4), "group": 16},
    ],
    verified=[{**one, "group": 16} for one in _workloads((6, 3, 2), zero=1)],
    no_infinity=(*_NO_INFINITY, "minima"),
)
CASES = (INTEGERS, ZEROS, INT8, FP4, FP8, MINIMA, SIXTEENS)
"""The cases of this family."""
