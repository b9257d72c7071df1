"""Workloads of embeddings: bags that are empty, tables of one row, rows next to each width of a block."""

from .._core import Cases
from .._core.cases import Sizes

_SIZES = (
    (1, 1, 1, 1), (2, 3, 1, 2), (3, 5, 2, 3), (5, 9, 4, 7), (7, 30, 3, 15), (16, 64, 9, 16), (17, 90, 8, 17),
    (8, 64, 20, 31), (31, 100, 7, 32), (4, 33, 33, 33), (64, 200, 5, 47), (33, 257, 31, 48), (2, 150, 11, 63),
    (100, 99, 2, 64), (9, 81, 9, 65), (12, 333, 50, 79), (50, 41, 12, 80), (3, 20, 3, 95), (20, 160, 40, 96),
    (40, 7, 20, 97), (6, 36, 6, 127), (11, 50, 13, 128), (13, 75, 11, 129), (1, 300, 200, 144), (200, 40, 1, 160),
    (10, 1, 10, 191), (25, 125, 25, 192), (5, 61, 60, 255), (60, 222, 5, 256), (14, 16, 15, 257), (70, 500, 100, 20),
    (9, 17, 200, 5), (5, 17, 0, 5),
)  # fmt: skip
"""Rows of the table, ids, bags, columns."""
_NAMES = ("rows", "n", "bags", "columns")
_TYPES = ("float32", "float32", "bfloat16")


def _each(modes: tuple[int, ...] = (0,)) -> list[Sizes]:
    """Each size with either width of ids, every third in bfloat16, most with a padding."""
    return [
        dict(zip(_NAMES, sizes, strict=True))
        | {
            "dtype": _TYPES[i % 3],
            "index": "int32" if i % 2 else "int64",
            "padding": i % 3 % sizes[0] if i % 4 else -1,
        }
        | ({"mode": modes[i % len(modes)]} if len(modes) > 1 else {})
        for i, sizes in enumerate(_SIZES)
    ]


_LARGE: Sizes = {
    "rows": 20_000,
    "n": 20_000,
    "bags": 1000,
    "columns": 128,
    "dtype": "float32",
    "index": "int64",
}
_SMALL: Sizes = {"rows": 500, "n": 3001, "bags": 300, "columns": 61, "dtype": "bfloat16", "index": "int32"}
_TIMED: list[Sizes] = [{**_LARGE, "padding": -1}, {**_SMALL, "padding": 3}]
_MEANS: list[Sizes] = [{**size, "mode": mode} for mode, size in enumerate(_TIMED)]
_TABLE, _IDS = "dtype[rows, columns] normal", "index[n] index(rows)"
_BAGS = {"ids": _IDS, "offsets": "index[bags + 1] sorted(0, n + 1)"}


def _without(sizes: list[Sizes], *names: str) -> list[Sizes]:
    return [{k: v for k, v in size.items() if k not in names} for size in sizes]


CASES = (
    Cases(
        "embedding",
        "embedding",
        {"weight": _TABLE, "ids": _IDS},
        _without(_TIMED, "padding", "bags"),
        _without(_each(), "padding", "bags"),
    ),
    Cases(
        "embedding_backward",
        "embedding_backward",
        {"g": "dtype[n, columns] normal", "ids": _IDS},
        _without(_TIMED, "bags"),
        _without(_each(), "bags"),
    ),
    Cases("embedding_bag", "embedding_bag", {"weight": _TABLE, **_BAGS}, _MEANS, _each((0, 1))),
    Cases(
        "embedding_bag",
        "embedding_bag",
        {"weight": _TABLE, **_BAGS, "scale": "dtype[n] normal"},
        _TIMED,
        _each(),
    ),
    Cases(
        "embedding_bag",
        "embedding_bag",
        {"weight": _TABLE, **_BAGS},
        [{**size, "mode": 2} for size in _TIMED],
        [{**size, "mode": 2} for size in _each()],
    ),
    Cases(
        "embedding_bag",
        "embedding_bag",
        {"weight": _TABLE, "ids": _IDS, "offsets": "index[bags] sorted(0, n + 1)"},
        [{**size, "ended": False} for size in _MEANS],
        [{**size, "ended": False} for size in _each((0, 1))],
    ),
    Cases(
        "embedding_scale_backward",
        "embedding_scale_backward",
        {"g": "dtype[bags, columns] normal", "weight": _TABLE, **_BAGS},
        _TIMED,
        _each(),
    ),
    Cases(
        "embedding_bag_backward",
        "embedding_bag_backward",
        {
            "g": "dtype[bags, columns] normal",
            **_BAGS,
            "scale": "dtype[n] normal",
            "chosen": "int64[bags, columns] integers(-1, rows)",
        },
        [{**size, "mode": 0} for size in _TIMED] + [{**_SMALL, "padding": 3, "mode": 2}],
        [{**size, "mode": 2 * (i % 2)} for i, size in enumerate(_each())],
    ),
)
"""The cases of this family."""
