"""Bounds next to SOLAR's: each difference has its reason, or none."""

import pytest
from benchmarks.solar_agreement import why_apart


def figures(ms, size, macs):
    return {"ms": ms, "bytes": size, "macs": macs}


@pytest.mark.parametrize(("problem", "own", "stands", "solar", "said"), [
    ("50_conv", figures(1, 8, 2), figures(4, 8, 8), figures(4, 8, 8), "a faster algorithm for a convolution"),
    ("18_Matmul_Sum", figures(1, 8, 0), figures(4, 8, 8), figures(4, 8, 8), "disappears in a sum"),
    ("14_Matmul", figures(2, 8, 4), figures(4, 8, 8), figures(4, 8, 8), "part of a product is not needed"),
    ("93_masked", figures(1, 6, 0), figures(1, 6, 0), figures(2, 8, 0), "fewer bytes"),
    ("93_masked", figures(3, 9, 0), figures(3, 9, 0), figures(2, 8, 0), ""),
    ("19_ReLU", figures(1, 8, 0), figures(1, 8, 0), figures(1, 8, 0), ""),
])  # fmt: skip
def test_a_difference_has_its_reason(problem, own, stands, solar, said):
    row = {"problem": problem, "ours": own, "as_solar_counts": stands, "solar": solar}
    found = why_apart(row | {"ratio": own["ms"] / solar["ms"]})
    assert (said in found) and bool(found) == bool(said)
