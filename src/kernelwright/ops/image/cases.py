"""Workloads of images: sizes near a vector's width, larger and smaller, steps that are no whole numbers; many boxes.

Boxes have whole coordinates, so that what two cover is exact and the same boxes go in every dtype.
"""

from .._core import Cases
from .._core.cases import Sizes

_SIZES = (
    (1, 1, 1, 1, 1, 1), (1, 2, 1, 1, 3, 5), (2, 1, 2, 3, 1, 1), (1, 1, 4, 4, 8, 8), (1, 3, 5, 7, 10, 14),
    (1, 2, 8, 8, 4, 4), (1, 1, 7, 15, 13, 16), (2, 2, 9, 16, 9, 17), (1, 1, 16, 17, 5, 31), (1, 4, 3, 31, 6, 33),
    (1, 1, 33, 32, 16, 64), (1, 2, 20, 33, 30, 47), (3, 1, 12, 64, 24, 65), (1, 1, 40, 63, 13, 21),
    (1, 3, 17, 65, 34, 20), (1, 1, 30, 100, 7, 9), (2, 1, 11, 128, 22, 30), (1, 1, 64, 11, 20, 22),
    (1, 5, 6, 6, 19, 23), (1, 1, 50, 50, 51, 49), (1, 1, 2, 200, 3, 37), (1, 2, 31, 29, 62, 58),
    (1, 1, 15, 15, 45, 45), (2, 3, 10, 18, 5, 36), (1, 1, 25, 41, 12, 100), (1, 1, 1, 130, 2, 65),
    (1, 2, 48, 8, 12, 24), (1, 1, 13, 97, 26, 48), (1, 1, 80, 80, 20, 20), (1, 1, 3, 3, 100, 3), (0, 3, 4, 4, 8, 8),
)  # fmt: skip
"""Items, channels, height and width before, and after."""
_NAMES = ("items", "channels", "rows", "columns", "height", "width")
_WAYS = ((0, False), (1, False), (1, True), (2, False), (2, True))
"""Mode, antialias."""


def _sized(sizes: tuple[int, ...], number: int) -> Sizes:
    mode, antialias = _WAYS[number % 5]
    dtype = "bfloat16" if number % 3 == 2 else "float32"
    return dict(zip(_NAMES, sizes, strict=True)) | {"mode": mode, "antialias": antialias, "dtype": dtype}


_LARGE = (
    (1, 3, 60, 80, 120, 160),
    (1, 3, 120, 160, 50, 60),
    (2, 2, 40, 50, 100, 90),
    (1, 3, 90, 100, 40, 70),
)
_COUNTS = (
    1, 2, 3, 5, 7, 8, 11, 15, 16, 17, 23, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 79, 80, 81, 96, 97, 127, 128, 129,
    150, 200, 257, 0,
)  # fmt: skip
CASES = (
    Cases(
        op="image_resize", reference="resize", arguments={"x": "dtype[items, channels, rows, columns] normal"},
        timed=[_sized(one, i + 1) for i, one in enumerate(_LARGE)],
        verified=[_sized(one, i) for i, one in enumerate(_SIZES)],
    ),
    Cases(
        op="image_suppress", reference="suppress", regimes=(),
        arguments={"boxes": "float32[n, 4] integers(0, 60)", "classes": "int64[n] index(kinds)"},
        timed=[{"n": 100, "threshold": 0.25, "kinds": 1}, {"n": 70, "threshold": 0.5, "kinds": 3}],
        verified=[{"n": n, "threshold": (0.0, 0.125, 0.5)[i % 3], "kinds": 1 + i % 2} for i, n in enumerate(_COUNTS)],
    ),
)  # fmt: skip
"""The cases of this family."""
