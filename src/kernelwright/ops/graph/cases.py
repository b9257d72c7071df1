"""Workloads of a softmax over edges: nodes without edges, one head and several, odd counts."""

from .._core import Cases

_SIZES = (
    (1, 1, 1), (2, 3, 1), (3, 2, 2), (5, 4, 1), (7, 16, 3), (16, 7, 4), (17, 33, 1), (8, 64, 2), (31, 5, 8),
    (4, 64, 1), (64, 40, 4), (33, 31, 5), (2, 100, 1), (100, 99, 2), (9, 81, 7), (12, 50, 4), (50, 12, 1), (3, 20, 16),
    (20, 160, 3),
    (40, 7, 2), (6, 36, 6), (11, 13, 1), (13, 75, 8), (1, 200, 1), (200, 200, 1), (10, 1, 4), (25, 125, 2), (5, 61, 9),
    (60, 222, 1), (14, 257, 3), (5, 0, 2),
)  # fmt: skip
"""Nodes, edges, heads."""
_VERIFIED = [dict(zip(("nodes", "edges", "heads"), sizes, strict=True)) for sizes in _SIZES]
_TIMED = [{"nodes": 20_000, "edges": 200_000, "heads": 4}, {"nodes": 2_000, "edges": 400_000, "heads": 1}]
_ROWS = {"crow": "int64[nodes + 1] sorted(0, edges + 1)"}
CASES = (
    Cases(
        op="graph_edge_softmax", reference="edge_softmax", timed=_TIMED, verified=_VERIFIED,
        arguments=_ROWS | {"scores": "float32[edges, heads] normal"},
    ),
    Cases(
        op="graph_edge_softmax_gradient", reference="edge_softmax_gradient", timed=_TIMED, verified=_VERIFIED,
        arguments=_ROWS | {"weights": "float32[edges, heads] uniform(0, 1)", "grad": "float32[edges, heads] normal"},
    ),
)  # fmt: skip
"""The cases of this family; its layers are tested against PyTorch Geometric's formulas."""
