"""Workloads of losses over large vocabularies, and of their gradients."""

from dataclasses import replace

from .._core import Cases

_ODD = (
    (1, 1, 1), (1, 2, 3), (2, 5, 1), (3, 3, 3), (5, 12, 16), (7, 13, 17), (8, 11, 15), (12, 100, 31), (13, 33, 33),
    (15, 1000, 8), (16, 64, 64), (17, 257, 2), (25, 95, 47), (31, 999, 5), (32, 32, 32), (33, 31, 65), (48, 97, 100),
    (63, 256, 12), (64, 255, 128), (65, 513, 3), (97, 1023, 40), (100, 7, 300), (127, 2048, 9), (128, 129, 130),
    (200, 50, 512), (255, 300, 24), (256, 257, 16), (257, 256, 20), (300, 777, 33), (511, 60, 60), (513, 40, 7),
    (600, 1500, 10), (1025, 90, 35), (0, 12, 16),
)  # fmt: skip
"""Rows, vocabulary, columns: ones, primes, one next to each chunk, block and width of a tile."""

_TYPES = ("float32", "bfloat16", "float32", "float16")
_LAYOUTS = ("contiguous", "transposed", "strided")
_SETTINGS: tuple[dict[str, int | float], ...] = (
    {"ignore_index": -100, "label_smoothing": 0.0, "z_loss": 0.0, "softcap": 0.0},
    {"ignore_index": 0, "label_smoothing": 0.1, "z_loss": 0.0, "softcap": 4.0},
    {"ignore_index": -1, "label_smoothing": 0.2, "z_loss": 0.3, "softcap": 0.0},
)
LOSSES = Cases(
    op="linear_cross_entropy",
    reference="linear_cross_entropy",
    arguments={
        "x": "dtype[rows, columns] layout",
        "weight": "dtype[vocabulary, columns] layout",
        "target": "int64[rows] index(vocabulary)",
    },
    timed=[
        {"rows": 512, "vocabulary": 8192, "columns": 65, "dtype": "float32", "layout": "contiguous"},
        {"rows": 256, "vocabulary": 32000, "columns": 128, "dtype": "float32", "layout": "contiguous"},
    ],
    verified=[
        {
            "rows": n,
            "vocabulary": v,
            "columns": d,
            "dtype": _TYPES[i % 4],
            "layout": _LAYOUTS[i // 2 % 3],
            **_SETTINGS[i % 3],
        }
        for i, (n, v, d) in enumerate(_ODD)
    ],
)
BIASED = replace(
    LOSSES,
    arguments={**LOSSES.arguments, "bias": "float32[vocabulary]"},
    timed=[{**LOSSES.timed[0], **_SETTINGS[1]}],
)
GRADIENTS = Cases(
    op="linear_cross_entropy_gradients",
    reference="gradients",
    arguments={
        "x": "dtype[rows, columns] layout",
        "weight": "dtype[vocabulary, columns] layout",
        "target": "int64[rows] index(vocabulary)",
        "bias": "float32[vocabulary]",
        "scale": "float32[rows] uniform(0.5, 2)",
    },
    timed=[
        {
            "rows": 128,
            "vocabulary": 2000,
            "columns": 65,
            "dtype": "float32",
            "layout": "contiguous",
            **_SETTINGS[1],
        },
        {
            "rows": 64,
            "vocabulary": 4000,
            "columns": 64,
            "dtype": "float32",
            "layout": "contiguous",
            **_SETTINGS[0],
        },
    ],
    verified=[
        {
            "rows": n,
            "vocabulary": min(v, 300),
            "columns": d,
            "dtype": _TYPES[i % 4],
            "layout": _LAYOUTS[i // 2 % 3],
            **_SETTINGS[i % 3],
        }
        for i, (n, v, d) in enumerate(_ODD)
    ],
    # An infinite slope times a probability that rounds to 0 is NaN, times another infinite.
    no_infinity=("scale",),
)
CASES = (LOSSES, BIASED, GRADIENTS)
"""The cases of this family."""
