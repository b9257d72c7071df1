"""Workloads of scans: one row, rows near a chunk's, channels near a vector's, states and heads that are shared."""

from .._core import Cases
from .._core.cases import Sizes

_TYPES = ("float32", "float32", "bfloat16")
_SELECTIVE = (
    (1, 1, 1, 1), (2, 1, 16, 16), (1, 2, 3, 2), (3, 3, 17, 4), (1, 5, 31, 8), (2, 7, 33, 3), (1, 8, 64, 16),
    (1, 9, 5, 15), (2, 15, 15, 17), (1, 16, 16, 1), (1, 17, 47, 5), (3, 13, 2, 33), (1, 31, 127, 2), (2, 32, 129, 4),
    (1, 33, 20, 16), (1, 40, 96, 7), (4, 11, 9, 9), (1, 63, 8, 16), (2, 64, 16, 8), (1, 65, 1, 16), (1, 66, 130, 3),
    (2, 29, 80, 6), (1, 95, 12, 12), (5, 6, 65, 2), (1, 96, 7, 31), (1, 97, 18, 10), (2, 23, 255, 1), (1, 4, 257, 5),
    (1, 128, 10, 4), (1, 129, 19, 3), (0, 29, 16, 4),
)  # fmt: skip
"""Batch, length, channels, states."""
_LINEAR = (
    (1, 1, 1, 1, 1, 1), (2, 1, 2, 1, 16, 64), (1, 2, 1, 2, 5, 3), (1, 2, 2, 7, 16, 16), (2, 3, 1, 8, 32, 17),
    (1, 1, 1, 9, 15, 33), (1, 1, 4, 11, 8, 48), (3, 1, 1, 15, 17, 15), (1, 2, 1, 16, 31, 64), (1, 1, 2, 17, 64, 31),
    (2, 1, 1, 23, 3, 70), (1, 3, 1, 31, 47, 5), (1, 1, 3, 32, 16, 16), (1, 1, 1, 33, 33, 33), (2, 2, 1, 40, 7, 20),
    (1, 1, 2, 47, 12, 96), (1, 1, 1, 61, 65, 9), (1, 2, 1, 63, 16, 15), (1, 1, 1, 64, 64, 64), (2, 1, 2, 65, 9, 11),
    (1, 1, 1, 66, 20, 40), (1, 1, 1, 79, 30, 30), (1, 2, 2, 90, 4, 16), (1, 1, 1, 127, 16, 8), (1, 1, 1, 128, 24, 24),
    (1, 1, 2, 129, 5, 5), (1, 1, 1, 130, 80, 16), (3, 1, 1, 70, 2, 2), (1, 1, 1, 150, 18, 34), (1, 1, 1, 193, 6, 50),
)  # fmt: skip
"""Batch, groups, heads of a group, length, inner, columns."""
_NAMES = ("batch", "groups", "each", "length", "inner", "columns")


def _selective(sizes: tuple[tuple[int, ...], ...]) -> list[Sizes]:
    names = ("batch", "length", "channels", "states")
    return [dict(zip(names, one, strict=True)) | {"dtype": _TYPES[i % 3]} for i, one in enumerate(sizes)]


def _linear(sizes: tuple[tuple[int, ...], ...]) -> list[Sizes]:
    return [dict(zip(_NAMES, one, strict=True)) | {"dtype": _TYPES[i % 3]} for i, one in enumerate(sizes)]


_SCAN = {
    "u": "dtype[batch, length, channels] normal", "delta": "dtype[batch, length, channels] uniform(0, 1)",
    "a": "float32[channels, states] uniform(-2, 0)", "b": "dtype[batch, length, states] normal",
    "c": "dtype[batch, length, states] normal", "d": "float32[channels] normal",
    "state": "float32[batch, channels, states] normal",
}  # fmt: skip
_HEADS = "batch, groups * each, length"
_KEYS = "dtype[batch, groups, length, inner] normal(0.2)"
_ROWS = {"q": _KEYS, "k": _KEYS, "v": f"dtype[{_HEADS}, columns] normal"}
_DECAY = {"decay": f"float32[{_HEADS}] uniform(-1, 0)"}
_STATE = {"state": "float32[batch, groups * each, inner, columns] normal"}
_BETA = {"beta": f"float32[{_HEADS}] uniform(0, 1)"}
_MANY = _linear(((1, 2, 2, 192, 64, 64), (1, 1, 4, 100, 48, 80)))
_FEWER = _linear(((1, 1, 2, 65, 64, 64), (1, 1, 3, 40, 48, 80)))
_LONG = {23: 5, 40: 4, 47: 6, 61: 10, 66: 12, 70: 13, 79: 14, 90: 5, 127: 18, 128: 3, 130: 6, 150: 4, 193: 3}
"""Lengths for the delta rule instead: its reference takes twice as long, and the judge has a deadline."""
_SHORTER = tuple((*sizes[:3], _LONG.get(sizes[3], sizes[3]), *sizes[4:]) for sizes in _LINEAR)
_SHORT = tuple((one[0], _LONG.get(one[1], min(one[1], 20)), *one[2:]) for one in _SELECTIVE)
CASES = (
    Cases(
        "scan_selective",
        "selective",
        _SCAN,
        _selective(((1, 100, 160, 16), (2, 60, 70, 15))),
        _selective(_SELECTIVE),
    ),
    Cases(
        "scan_linear",
        "linear",
        {**_ROWS, **_DECAY, **_STATE},
        _MANY,
        _linear(_LINEAR),
        no_infinity=(*_ROWS, *_STATE),
    ),
    Cases(
        "scan_selective_backward",
        "selective_backward",
        {
            **_SCAN,
            "slope": "dtype[batch, length, channels] normal",
            "after": "float32[batch, channels, states] normal",
        },
        _selective(((1, 40, 160, 16), (2, 24, 70, 15))),
        _selective(_SHORT),
        no_infinity=(*_SCAN, "slope", "after"),
    ),
    Cases(
        "scan_linear_backward",
        "linear_backward",
        {
            **_ROWS,
            **_DECAY,
            **_STATE,
            "slope": f"dtype[{_HEADS}, columns] normal",
            "after": "float32[batch, groups * each, inner, columns] normal",
        },
        [{**one, "scale": 0.5} for one in _FEWER],
        [{**one, "scale": 0.3} for one in _linear(_SHORTER)],
        no_infinity=(*_ROWS, *_DECAY, *_STATE, "slope", "after"),
    ),
    # Longer keys, or decays well above 0, let the rule grow without bound: float32 overflows, chunks at other rows.
    Cases(
        "scan_delta",
        "delta",
        {**_ROWS, **_BETA, **_DECAY, **_STATE},
        _FEWER,
        _linear(_SHORTER),
        regimes=("tiny-scale",),
    ),
)
"""The cases of this family."""
