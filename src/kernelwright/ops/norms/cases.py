"""Workloads of norms: ones, primes, one next to each width of a vector, rows longer than a run of sums."""

from .._core import Cases

_ROWS = (
    (1, 1), (3, 1), (1, 2), (5, 3), (2, 7), (7, 15), (16, 16), (3, 17), (11, 31), (4, 33), (1, 63), (9, 64), (13, 65),
    (31, 127), (2, 129), (64, 255), (5, 1009), (3, 2047), (2, 2048), (2, 2049), (1, 9001), (129, 96), (1000, 24),
    (33, 80), (65, 48), (1, 70_001), (17, 512), (257, 19), (0, 17),
)  # fmt: skip
_IMAGES = (
    (1, 1, 1, 1), (2, 1, 2, 1), (1, 3, 1, 5), (3, 2, 3, 7), (2, 4, 1, 15), (1, 2, 4, 16), (2, 3, 2, 17), (5, 1, 6, 31),
    (1, 8, 4, 33), (2, 8, 2, 49), (3, 5, 1, 64), (1, 32, 2, 65), (2, 2, 8, 100), (1, 4, 3, 1024), (1, 1, 1, 4099),
    (4, 16, 2, 9), (7, 3, 3, 3), (1, 6, 5, 13), (3, 1, 9, 128), (2, 7, 2, 255), (1, 4, 1, 2049), (6, 2, 4, 32),
    (1, 16, 3, 81), (2, 32, 10, 16), (0, 3, 2, 7),
)  # fmt: skip
"""Items, groups, channels of a group, elements of a channel."""
_WAYS = ({"dtype": "float32"}, {"dtype": "bfloat16"}, {"dtype": "bfloat16", "scale": "float32"})


def _ways(sizes: list[dict[str, int]]) -> list[dict[str, int | str]]:
    """Each size in float32, and every other one in bfloat16 too, by turns with weights of float32."""
    found: list[dict[str, int | str]] = []
    for number, size in enumerate(sizes):
        ways = [_WAYS[0], _WAYS[1 + number // 2 % 2]] if number % 2 else [_WAYS[0]]
        found += [{"scale": way["dtype"], **way, **size} for way in ways]
    return found


def _rows(op: str, **tensors: str) -> Cases:
    timed = [{"rows": 2048, "n": 1024}, {"rows": 256, "n": 4096}, {"rows": 9, "n": 515}]
    sizes = [{"rows": rows, "n": n} for rows, n in _ROWS]
    return Cases(
        op=op,
        reference=op,
        arguments=tensors,
        timed=_ways(timed),
        verified=_ways(sizes),
        no_infinity=_of_products(op, tensors),
    )


def _images(op: str, **tensors: str) -> Cases:
    timed = [
        {"items": 1, "groups": 32, "each": 10, "inner": 1024},
        {"items": 2, "groups": 8, "each": 4, "inner": 256},
    ]
    sizes = [{"items": i, "groups": g, "each": e, "inner": n} for i, g, e, n in _IMAGES]
    verified = [{**way, "silu": number % 3 > 0} for number, way in enumerate(_ways(sizes + sizes[:3]))]
    return Cases(
        op=op,
        reference=op,
        arguments=tensors,
        timed=[{**t, "silu": True} for t in _ways(timed)],
        verified=verified,
        no_infinity=_of_products(op, tensors),
    )


def _of_products(op: str, tensors: dict[str, str]) -> tuple[str, ...]:
    """Name the tensors whose infinities give another answer in each order: of gradients, all."""
    return tuple(tensors) if op.endswith("_backward") else ()


_X, _SCALE, _SHIFT = "dtype[rows, n] normal", "scale[n] normal", "scale[n] normal"
_IMAGE = "dtype[items, groups * each, inner] normal"
_CHANNEL = "scale[groups * each] normal"
CASES = (
    _rows("rms_norm", x=_X, weight=_SCALE),
    _rows("add_rms_norm", x=_X, residual=_X, weight=_SCALE),
    _rows("rms_norm_backward", g=_X, x=_X, weight=_SCALE, extra=_X),
    _rows("layer_norm", x=_X, weight=_SCALE, bias=_SHIFT),
    _rows("layer_norm_backward", g=_X, x=_X, weight=_SCALE, bias=_SHIFT),
    _images("group_norm_silu", x=_IMAGE, weight=_CHANNEL, bias=_CHANNEL),
    _images("group_norm_silu_backward", g=_IMAGE, x=_IMAGE, weight=_CHANNEL, bias=_CHANNEL),
)
"""The cases of this family."""
