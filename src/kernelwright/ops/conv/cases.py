"""Workloads of convolutions: planes near a vector's width, windows that reach over the edge, strides, groups.

Every third of the channels by themselves at stride 1 is of bfloat16, which has a kernel there alone.
"""

from .._core import Cases
from .._core.cases import Sizes

_DEPTHWISE = (
    (1, 1, 1, 1, 1, 3, 3, 1), (2, 3, 1, 7, 1, 1, 4, 1), (1, 5, 2, 2, 1, 3, 3, 1), (1, 4, 7, 7, 1, 3, 3, 1),
    (2, 2, 14, 14, 1, 3, 3, 1), (1, 3, 15, 16, 1, 3, 3, 1), (1, 2, 16, 17, 2, 3, 3, 1), (1, 6, 31, 33, 1, 3, 3, 1),
    (1, 2, 5, 47, 1, 5, 5, 1), (1, 3, 9, 13, 1, 5, 5, 1), (2, 1, 21, 64, 1, 7, 7, 1), (1, 2, 8, 9, 1, 7, 7, 1),
    (1, 2, 11, 65, 1, 2, 3, 1), (1, 7, 1, 100, 1, 1, 4, 1), (1, 4, 13, 31, 1, 3, 3, 2), (1, 3, 6, 80, 1, 4, 1, 1),
)  # fmt: skip
"""Items, channels, height, width, results of a channel, window, stride."""
_DENSE = (
    (1, 1, 1, 1, 1, 1, 1, 1), (1, 3, 5, 7, 2, 1, 1, 1), (2, 16, 7, 7, 24, 1, 1, 1), (1, 17, 4, 33, 12, 1, 1, 1),
    (1, 64, 9, 11, 13, 1, 1, 1), (1, 5, 16, 16, 40, 1, 1, 1), (1, 3, 9, 9, 8, 3, 3, 1), (2, 4, 12, 17, 16, 3, 3, 1),
    (1, 1, 20, 31, 5, 5, 5, 1), (1, 8, 7, 15, 17, 3, 3, 2), (1, 3, 21, 23, 9, 7, 7, 2), (1, 2, 6, 65, 3, 3, 3, 1),
    (1, 6, 10, 10, 6, 2, 2, 2), (3, 3, 8, 8, 10, 3, 1, 1), (1, 33, 3, 5, 4, 3, 3, 1), (1, 12, 1, 50, 7, 1, 5, 3),
)  # fmt: skip
"""Items, channels, height, width, results, window, stride."""
_GROUPED = (
    (2, 6, 9, 11, 4, 3, 3, 1, 2), (1, 8, 7, 17, 16, 3, 3, 2, 4), (1, 12, 10, 10, 40, 1, 1, 1, 4),
    (2, 9, 5, 33, 60, 2, 3, 1, 3), (1, 10, 16, 15, 6, 1, 1, 2, 2), (3, 4, 6, 7, 34, 5, 5, 1, 2),
)  # fmt: skip
"""As above, and groups: a few channels are summed, by themselves or for more than one tile of results."""


def _sized(sizes: tuple[int, ...], depthwise: bool, number: int) -> Sizes:
    items, channels, height, width, results, taps_y, taps_x, stride = sizes
    apart = (
        2
        if number % 5 == 4 and min(taps_y, taps_x) > 1 and min(height, width) > 2 * max(taps_y, taps_x)
        else 1
    )
    before = {"top": apart * (taps_y - 1) // 2, "left": apart * (taps_x - 1) // 2}
    after = {"bottom": apart * (taps_y - 1) - before["top"], "right": apart * (taps_x - 1) - before["left"]}
    return {
        "items": items, "channels": channels, "height": height, "width": width, "taps_y": taps_y, "taps_x": taps_x,
        "results": results * channels if depthwise else results, "each": 1 if depthwise else channels,
        "groups": channels if depthwise else 1, "stride_y": stride, "stride_x": stride, **before, **after,
        "dilation_y": apart, "dilation_x": apart, "curve": number % 3,
        "dtype": "bfloat16" if depthwise and stride == 1 and number % 3 == 2 else "float32",
    }  # fmt: skip


_TIMED = [
    {**_sized((1, 64, 40, 40, 1, 3, 3, 1), True, 0), "curve": 1},
    {**_sized((1, 48, 28, 28, 64, 1, 1, 1), False, 0), "curve": 2},
    {**_sized((1, 3, 64, 65, 16, 3, 3, 2), False, 0), "curve": 1},
    {**_sized((2, 37, 1, 131, 1, 1, 4, 1), True, 0), "left": 3, "right": 0, "curve": 2},
]
_VERIFIED = [_sized(one, True, i) for i, one in enumerate(_DEPTHWISE)]
_VERIFIED += [_sized(one, False, i) for i, one in enumerate(_DENSE)]
_VERIFIED += [
    {**_sized(one[:8], False, i), "each": one[1] // one[8], "groups": one[8]}
    for i, one in enumerate(_GROUPED)
]
_TENSORS = {
    "x": "dtype[items, channels, height, width] normal", "weight": "dtype[results, each, taps_y, taps_x] normal",
    "bias": "dtype[results] normal",
}  # fmt: skip
CASES = (
    Cases(op="conv", reference="conv", arguments=_TENSORS, timed=_TIMED, verified=_VERIFIED),
    Cases(
        op="conv", reference="conv", arguments={n: _TENSORS[n] for n in ("x", "weight")}, timed=_TIMED[:1],
        verified=_VERIFIED,
    ),
)  # fmt: skip
"""The cases of this family: with a bias, and without."""
