"""Workloads of mixtures of experts.

Logits of the gate are integers, so that equal scores are equal and the first wins in reference and kernel.
"""

from .._core import Cases

_GATE = (
    (1, 1, 1), (1, 2, 1), (1, 8, 2), (2, 3, 3), (3, 16, 4), (4, 5, 2), (5, 64, 6), (7, 17, 8), (8, 8, 8), (9, 31, 1),
    (11, 33, 5), (13, 128, 8), (16, 15, 3), (17, 16, 16), (19, 63, 7), (31, 65, 2), (32, 32, 4), (33, 7, 6),
    (37, 256, 8), (47, 60, 4), (61, 9, 9), (64, 64, 6), (97, 11, 2), (100, 100, 10), (127, 8, 1), (128, 12, 4),
    (211, 24, 6), (256, 16, 2), (257, 8, 2), (509, 6, 3), (0, 6, 3),
)  # fmt: skip
"""Tokens, experts, chosen."""
_KINDS: tuple[dict[str, int | float | bool], ...] = (
    {"sigmoid": False},
    {"sigmoid": True, "scale": 2.5},
    {"sigmoid": False, "renormalised": False},
)

GATE = Cases(
    op="moe_gate",
    reference="gate",
    arguments={"logits": "dtype[tokens, experts] integers(-5, 6)"},
    timed=[{"tokens": 1024, "experts": 64, "chosen": 6, "dtype": "float32"}],
    verified=[
        {"tokens": t, "experts": e, "chosen": k, "dtype": ("float32", "bfloat16")[i % 2], **_KINDS[i % 3]}
        for i, (t, e, k) in enumerate(_GATE)
    ],
    regimes=(),
)
LIMITED = Cases(
    op="moe_gate",
    reference="gate",
    arguments={
        "logits": "float32[tokens, experts] integers(-5, 6)",
        "bias": "float32[experts] integers(-2, 3)",
    },
    timed=[
        {
            "tokens": 512, "experts": 64, "chosen": 8, "sigmoid": True, "groups": 8, "kept": 4, "best_of_group": 2,
        }
    ],
    verified=[
        {
            "tokens": t, "experts": groups * each, "chosen": min(k, kept * each), "sigmoid": True, "groups": groups,
            "kept": kept, "best_of_group": 1 + i % 2,
        }
        for i, (t, groups, each, kept, k) in enumerate(
            (t, groups, each, kept, k)
            for t, k in ((1, 1), (3, 2), (17, 4), (64, 6), (129, 3))
            for groups, each, kept in ((1, 5, 1), (2, 3, 1), (4, 4, 2), (8, 8, 3), (3, 7, 3), (5, 1, 4))
        )
    ],
    regimes=(),
)  # fmt: skip
PLAN = Cases(
    op="moe_plan",
    reference="plan",
    arguments={"keys": "int64[n] integers(-1, 20)"},
    timed=[{"n": 4096, "groups": 16}],
    verified=[
        {"n": n, "groups": 1 + n % 23}
        for n in (
            1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 100, 127, 128, 129, 255, 256, 257, 500,
            509, 511, 513, 1000, 1009, 2047, 2048,
        )
    ],
)  # fmt: skip

_LAYERS = (
    (1, 1, 1, 1, 1), (1, 8, 2, 32, 1), (2, 3, 1, 16, 2), (3, 4, 2, 33, 1), (4, 5, 5, 31, 3), (5, 2, 1, 64, 2),
    (7, 16, 4, 65, 1), (8, 8, 2, 17, 4), (9, 3, 3, 100, 1), (11, 6, 2, 47, 2), (12, 4, 1, 32, 3), (13, 9, 6, 15, 1),
    (16, 2, 2, 96, 1), (17, 64, 6, 40, 1), (19, 7, 1, 1, 5), (24, 4, 2, 63, 2), (25, 5, 2, 129, 1), (31, 1, 1, 30, 2),
    (32, 8, 4, 48, 1), (33, 3, 2, 34, 3), (48, 12, 3, 20, 1), (49, 2, 1, 160, 1), (61, 8, 8, 24, 1), (64, 4, 2, 64, 4),
    (65, 6, 1, 10, 2), (97, 5, 3, 70, 1), (100, 3, 1, 16, 1), (128, 16, 2, 32, 1), (150, 2, 2, 99, 2),
    (200, 1, 1, 8, 1),
)  # fmt: skip
"""Tokens, experts, chosen, hidden, sixteens of width."""

EXPERTS = Cases(
    op="moe_experts",
    reference="experts",
    arguments={
        "x": "dtype[tokens, hidden]",
        "ups": "dtype[experts, sixteens, hidden, 2, 16] normal(0.2)",
        "downs": "dtype[experts, (hidden + 31) // 32, sixteens * 16, 2, 16] normal(0.2)",
        "weights": "float32[tokens, chosen] uniform(0.1, 1)",
        "ids": "int64[tokens, chosen] integers(-1, experts)",
    },
    timed=[
        {"tokens": 1, "experts": 8, "chosen": 2, "hidden": 256, "sixteens": 32, "dtype": "float32"},
        {"tokens": 64, "experts": 8, "chosen": 2, "hidden": 128, "sixteens": 8, "dtype": "bfloat16"},
    ],
    verified=[
        {"tokens": t, "experts": e, "chosen": k, "hidden": h, "sixteens": s, "dtype": ("float32", "bfloat16")[i % 2]}
        for i, (t, e, k, h, s) in enumerate(_LAYERS)
    ],
)  # fmt: skip
_GROUPED = (
    (1, 1, 1, 1, 1), (2, 3, 1, 2, 3), (1, 5, 4, 7, 2), (3, 2, 9, 15, 5), (4, 4, 16, 16, 16), (5, 9, 17, 17, 31),
    (2, 31, 33, 31, 32), (8, 7, 8, 32, 33), (3, 16, 64, 33, 17), (16, 64, 5, 47, 8), (1, 20, 100, 48, 64),
    (6, 6, 36, 63, 65), (2, 13, 13, 64, 100), (9, 30, 90, 65, 1), (7, 3, 50, 79, 12), (64, 10, 200, 80, 20),
    (2, 100, 31, 95, 40), (3, 40, 129, 96, 7), (5, 5, 25, 97, 33), (4, 12, 128, 127, 9), (1, 1, 300, 128, 2),
    (10, 33, 47, 129, 30), (2, 200, 150, 144, 24), (12, 8, 64, 160, 63), (3, 17, 255, 191, 48), (20, 60, 20, 8, 96),
    (2, 64, 256, 20, 129), (5, 2, 511, 12, 4), (32, 50, 100, 31, 31), (7, 90, 11, 257, 15), (1, 9, 13, 3, 160),
)  # fmt: skip
"""Groups, rows of x, entries, inner, columns."""


def _grouped(i: int, sizes: tuple[int, ...]) -> dict[str, int | float | str | bool]:
    names = ("groups", "n", "entries", "inner", "columns")
    named: dict[str, int | float | str | bool] = dict(zip(names, sizes, strict=True))
    return named | {"rows": 1 + i % 3 * sizes[2] // 2, "dtype": ("float32", "bfloat16")[i % 2]}


GROUPED = Cases(
    op="moe_grouped",
    reference="grouped_by_entry",
    arguments={
        "x": "dtype[n, inner]",
        "panels": "dtype[groups, (columns + 31) // 32, inner, 2, 16] normal(0.2)",
        "offsets": "int64[groups + 1] offsets(entries)",
        "gather": "int64[entries] index(n)",
        "scatter": "int64[entries] index(rows)",
        "weights": "float32[rows] uniform(0.1, 1)",
    },
    timed=[_grouped(2, (8, 64, 128, 64, 96)), _grouped(1, (16, 50, 150, 48, 80))],
    verified=[_grouped(i, sizes) for i, sizes in enumerate(_GROUPED)],
)
CASES = (GATE, LIMITED, PLAN, GROUPED, EXPERTS)
"""The cases of this family."""
