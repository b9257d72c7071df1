"""Workloads of optimizer steps: ones, primes, one next to each width of a vector and of a chunk."""

from .._core import Cases
from .._core.cases import Sizes

_SIZES = (
    1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 129, 255, 511, 513, 1009, 1023, 1025, 2049, 3001, 4095,
    4097, 8191, 8192, 8193, 12_289, 65_537, 30_011, 0,
)  # fmt: skip
_MATRICES = (
    (1, 1), (1, 2), (2, 1), (3, 5), (5, 3), (7, 16), (8, 15), (9, 17), (16, 31), (17, 33), (1, 100), (100, 1), (15, 64),
    (31, 65), (33, 96), (64, 7), (65, 127), (63, 129), (128, 48), (129, 20), (2, 2047), (3, 2048), (4, 2049), (200, 11),
    (13, 255), (12, 257), (71, 73), (257, 3), (24, 1009), (1, 4099), (300, 40),
)  # fmt: skip
_TYPES = ("float32", "bfloat16")
_ADAM: tuple[Sizes, ...] = (
    {"step": 1.0, "lr": 0.1, "weight_decay": 0.1},
    {"step": 7.0, "lr": 0.3, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3},
    {"step": 1000.0, "lr": 0.2, "maximize": True},
)
_LION: tuple[Sizes, ...] = (
    {"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.3, "beta1": 0.5, "beta2": 0.7}, {"lr": 0.2, "maximize": True},
)  # fmt: skip
_FACTOR: tuple[Sizes, ...] = (
    {"step": 1.0, "lr": 0.1, "weight_decay": 0.1},
    {"step": 5.0, "lr": 0.3, "eps1": 1e-3, "eps2": 0.1, "d": 0.5},
    {"step": 50.0, "lr": 0.5, "beta2_decay": -0.5, "maximize": True, "d": 3.0},
)
_P = "dtype[n] normal"
_MOMENTS = {"mean": "float32[n] normal", "square": "float32[n] uniform(0, 2)"}
_P2 = "dtype[rows, n] normal"


def _each(sizes: list[dict[str, int]], ways: tuple[Sizes, ...]) -> list[Sizes]:
    """Each size in one of the ways, and every other one in bfloat16."""
    return [{**size, **ways[i % len(ways)], "dtype": _TYPES[i // 2 % 2]} for i, size in enumerate(sizes)]


def _timed(sizes: tuple[dict[str, int], ...], ways: tuple[Sizes, ...]) -> list[Sizes]:
    return [
        {**size, **way, "dtype": dtype}
        for size, way, dtype in zip(sizes, ways, ("float32", "float32", "bfloat16"), strict=True)
    ]


_VECTORS = [{"n": n} for n in _SIZES]
_BIG = ({"n": 1_000_000}, {"n": 30_011}, {"n": 300_000})
_ONE_MATRIX = [{"rows": rows, "n": n} for rows, n in _MATRICES]
_BIG_MATRICES = ({"rows": 1024, "n": 1024}, {"rows": 257, "n": 509}, {"rows": 300, "n": 1000})
CASES = (
    Cases(
        "optim_adamw",
        "adamw",
        {"param": _P, "grad": _P, **_MOMENTS},
        _timed(_BIG, _ADAM),
        _each(_VECTORS, _ADAM),
    ),
    Cases(
        "optim_adamw",
        "adamw",
        {"param": _P, "grad": _P, **_MOMENTS, "largest": "float32[n] uniform(0, 2)"},
        _timed(_BIG, _ADAM),
        _each(_VECTORS, _ADAM),
    ),
    Cases(
        "optim_lion",
        "lion",
        {"param": _P, "grad": _P, "mean": _MOMENTS["mean"]},
        _timed(_BIG, _LION),
        _each(_VECTORS, _LION),
    ),
    Cases(
        "optim_adafactor",
        "adafactor",
        {
            "param": _P2,
            "grad": _P2,
            "row": "float32[rows, 1] uniform(0.1, 2)",
            "column": "float32[1, n] uniform(0.1, 2)",
        },
        _timed(_BIG_MATRICES, _FACTOR),
        _each(_ONE_MATRIX, _FACTOR),
        regimes=("constant",),  # others have means of squares that are negative
    ),
)
"""The cases of this family."""
