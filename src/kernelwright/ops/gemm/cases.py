"""Workloads of products with packed factors: one row and tiles of rows, odd sizes, activations, gates, residuals."""

from .._core import Cases

_SIZES = (
    (1, 1, 2), (1, 33, 64), (1, 300, 130), (2, 2, 4), (2, 100, 48), (3, 31, 16), (4, 64, 10), (5, 32, 200), (7, 47, 34),
    (8, 8, 8), (9, 95, 66), (11, 16, 98), (12, 1, 40), (13, 65, 14), (15, 17, 26), (16, 128, 32), (17, 30, 700),
    (19, 130, 6), (23, 63, 50), (24, 96, 24), (25, 48, 1030), (31, 29, 74), (32, 32, 32), (36, 257, 12), (37, 15, 128),
    (48, 64, 100), (61, 7, 58), (64, 100, 64), (97, 33, 36), (128, 12, 20), (150, 70, 8), (200, 40, 16), (0, 33, 64),
)  # fmt: skip
"""Rows, columns, inner elements; even, since what lies behind an odd last one in the panels is multiplied by zero."""
_VERIFIED = [{"rows": r, "columns": c, "inner": k, "curve": i % 5} for i, (r, c, k) in enumerate(_SIZES)]
_FLOAT = {"a": "float32[rows, inner]", "panels": "float32[(columns + 31) // 32, inner, 2, 16] normal(0.2)"}
_PAIRS = {
    "a": "bfloat16[rows, inner]",
    "panels": "bfloat16[(columns + 31) // 32, (inner + 1) // 2, 32, 2] normal(0.2)",
}
_BYTES = {
    "a": "int8[rows, inner] integers(-128, 128)",
    "panels": "uint8[(columns + 31) // 32, (inner + 3) // 4, 32, 4] integers(0, 256)",
}


def _behind(dtype: str) -> dict[str, str]:
    return {
        "bias": f"{dtype}[columns]",
        "gate": f"{dtype}[rows, columns]",
        "residual": f"{dtype}[rows, columns]",
    }


_TIMED = [
    {"rows": 1, "columns": 1024, "inner": 1024, "curve": 0},
    {"rows": 64, "columns": 768, "inner": 512, "curve": 3},
]
CASES = (
    Cases(
        op="gemm_matmul", reference="matmul", arguments=_FLOAT | _behind("float32"), timed=_TIMED, verified=_VERIFIED,
    ),
    Cases(op="gemm_matmul", reference="matmul", arguments=_FLOAT, timed=_TIMED[:1], verified=_VERIFIED),
    Cases(
        op="gemm_matmul", reference="matmul", arguments=_PAIRS | _behind("bfloat16"), timed=_TIMED, verified=_VERIFIED,
    ),
    Cases(
        op="gemm_integers", reference="integers", arguments=_BYTES, timed=_TIMED[:1],
        verified=[{**sizes, "curve": 0} for sizes in _VERIFIED],
    ),
    Cases(
        op="gemm_integers", reference="integers", timed=_TIMED, verified=_VERIFIED,
        arguments=_BYTES | {
            "row_scale": "float32[rows] uniform(0.001, 0.01)", "column_scale": "float32[columns] uniform(0.1, 1)",
            "bias": "float32[columns]",
        },
    ),
)  # fmt: skip
"""The cases of this family."""
