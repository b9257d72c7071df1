"""Workloads of activations and gated products."""

from .._core import Cases

_SIZES = (
    1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 1009, 4095, 4096, 4097, 8191, 12_289, 65_537, 5, 97, 511,
    513, 2049, 1023, 1025, 3001, 30, 47, 20_011, 0,
)  # fmt: skip
_ROWS = (
    (1, 1), (3, 1), (1, 2), (5, 3), (2, 7), (7, 15), (16, 16), (3, 17), (11, 31), (4, 33), (1, 63), (9, 64), (13, 65),
    (31, 127), (2, 129), (64, 255), (5, 1009), (3, 4095), (2, 4096), (2, 4097), (1, 9001), (129, 96),
    (6, 34), (10, 47), (3, 2047), (0, 17),
)  # fmt: skip


Workloads = list[dict[str, int | str]]


def _curves(sizes: list[dict[str, int]]) -> Workloads:
    """Each size with one of the curves in float32, and most with another in bfloat16."""
    found: Workloads = [{**size, "curve": i % 3, "dtype": "float32"} for i, size in enumerate(sizes)]
    return found + [{**size, "curve": (i + 1) % 3, "dtype": "bfloat16"} for i, size in enumerate(sizes[4:])]


def _one(op: str, **tensors: str) -> Cases:
    timed: Workloads = [
        {"n": 4_000_000, "curve": 0, "dtype": "float32"},
        {"n": 300_000, "curve": 1, "dtype": "bfloat16"},
        {"n": 300_007, "curve": 2, "dtype": "float32"},
    ]
    return Cases(op, op, tensors, timed, _curves([{"n": n} for n in _SIZES]))


def _rows(op: str, **tensors: str) -> Cases:
    timed: Workloads = [
        {"rows": 256, "n": 11_008, "curve": 0, "dtype": "float32"},
        {"rows": 256, "n": 4096, "curve": 1, "dtype": "bfloat16"},
        {"rows": 61, "n": 1021, "curve": 2, "dtype": "float32"},
    ]
    return Cases(op, op, tensors, timed, _curves([{"rows": rows, "n": n} for rows, n in _ROWS]))


_N, _R, _P = "dtype[n] normal(3)", "dtype[rows, n] normal(3)", "dtype[rows, 2 * n] normal(3)"
CASES = (
    _one("activation", x=_N),
    _one("activation_backward", g=_N, x=_N),
    _rows("glu", gate=_R, up=_R),
    _rows("glu_backward", g=_R, gate=_R, up=_R),
    _rows("glu_packed", x=_P),
    _rows("glu_packed_backward", g=_R, x=_P),
)
"""The cases of this family."""
