"""Workloads of activations and gated products."""

from .._core import Cases

_SIZES = (
    1,
    2,
    3,
    7,
    15,
    16,
    17,
    31,
    33,
    63,
    64,
    65,
    127,
    129,
    255,
    1009,
    4095,
    4096,
    4097,
    8191,
    12_289,
    65_537,
)
_ROWS = (
    (1, 1), (3, 1), (1, 2), (5, 3), (2, 7), (7, 15), (16, 16), (3, 17), (11, 31), (4, 33), (1, 63), (9, 64), (13, 65),
    (31, 127), (2, 129), (64, 255), (5, 1009), (3, 4095), (2, 4096), (2, 4097), (1, 9001), (129, 96),
    (6, 34), (10, 47), (3, 2047),
)  # fmt: skip


def _one(op: str, reference: str, **tensors: str) -> Cases:
    verified = [{"n": n, "curve": i % 3} for i, n in enumerate(_SIZES)]
    verified += [{"n": n, "curve": (i + 1) % 3, "dtype": "bfloat16"} for i, n in enumerate(_SIZES[4:])]
    timed = [
        {"n": 4_000_000, "curve": 0},
        {"n": 300_000, "curve": 1, "dtype": "bfloat16"},
        {"n": 300_007, "curve": 2},
    ]
    return _made(op, reference, tensors, timed, verified)


def _rows(op: str, reference: str, **tensors: str) -> Cases:
    verified = [{"rows": r, "n": n, "curve": i % 3} for i, (r, n) in enumerate(_ROWS)]
    verified += [
        {"rows": r, "n": n, "curve": (i + 1) % 3, "dtype": "bfloat16"} for i, (r, n) in enumerate(_ROWS[4:])
    ]
    timed = [
        {"rows": 256, "n": 11_008, "curve": 0}, {"rows": 256, "n": 4096, "curve": 1, "dtype": "bfloat16"},
        {"rows": 61, "n": 1021, "curve": 2},
    ]  # fmt: skip
    return _made(op, reference, tensors, timed, verified)


def _made(op, reference, tensors, timed, verified):  # type: ignore[no-untyped-def]
    given = [{"dtype": "float32", **sizes} for sizes in verified]
    return Cases(
        op=op, reference=reference, arguments=tensors, verified=given,
        timed=[{"dtype": "float32", **sizes} for sizes in timed],
    )  # fmt: skip


_N, _R, _P = "dtype[n] normal(3)", "dtype[rows, n] normal(3)", "dtype[rows, 2 * n] normal(3)"
CASES = (
    _one("activation", "activation", x=_N),
    _one("activation_backward", "activation_backward", g=_N, x=_N),
    _rows("glu", "glu", gate=_R, up=_R),
    _rows("glu_backward", "glu_backward", g=_R, gate=_R, up=_R),
    _rows("glu_packed", "glu_packed", x=_P),
    _rows("glu_packed_backward", "glu_packed_backward", g=_R, x=_P),
)
"""The cases of this family."""
