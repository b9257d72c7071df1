"""Bounds next to SOLAR's: each difference has the rule that explains it, or none."""

import pytest
from benchmarks.solar_agreement import KINDS, near, summary, whole_bytes, why_apart

from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks.capture import record_function

CONVOLUTION = ["a convolution by transforms", "aten.convolution.default", 8, 2]
SUM = ["only sums of its results are used", "aten.mm.default", 8, 0]


def figures(ms, size=8, macs=8):
    return {"ms": ms, "bytes": size, "macs": macs}


def row(own, stand, solar, as_solar, *rules):
    times = {"ours": own, "products_stand": stand, "as_solar_counts": as_solar, "solar": solar}
    return {kind: figures(ms) for kind, ms in times.items()} | {"problem": "p", "rules": list(rules)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (row(1, 4, 4, 4, CONVOLUTION), ["a convolution by transforms"]),
        (row(1, 4, 4, 4, CONVOLUTION, SUM), ["a convolution by transforms", "only sums of its results are used"]),
        (row(3, 3, 4, 4), ["bytes that nothing reads"]),
        (row(1, 3, 4, 4, SUM), ["only sums of its results are used", "bytes that nothing reads"]),
        (row(1, 4, 4, 4), []),
        (row(3, 3, 4, 3, CONVOLUTION), []),
        (row(4, 4, 4, 4, CONVOLUTION), []),
    ],
    ids=["rule", "two rules", "bytes", "both", "no rule", "SOLAR's way differs too", "equal"],
)  # fmt: skip
def test_a_difference_has_the_rules_that_explain_it(given, said):
    found = why_apart(given)
    assert all(part in found for part in said)
    assert bool(found) == bool(said)


def test_a_difference_without_a_rule_fails_the_command(capsys):
    agreeing, explained, left = (row(4, 4, 4, 4), row(1, 4, 4, 4, SUM), row(1, 4, 4, 4))
    rows = [
        one | {"agrees": {kind: near(one[kind], one["solar"]) for kind in KINDS}, "why": why_apart(one)}
        for one in (agreeing, explained, left)
    ]
    assert summary(rows[:2]) == 0
    assert summary(rows) == 1
    assert summary([*rows[:2], {"problem": "q", "reason": "SOLAR reads no graph"}]) == 1
    assert "1 of 3 within 10%: ours" in capsys.readouterr().out


def test_bytes_are_counted_whole_and_at_four_an_element():
    import torch

    specs = (
        TensorSpec(name="x", shape=(4, 6), dtype="float32"), TensorSpec(name="m", shape=(4, 3), dtype="bool"),
        TensorSpec(name="unused", shape=(100,), dtype="float32"),
    )  # fmt: skip
    values = [torch.ones(4, 6), torch.ones(4, 3, dtype=torch.bool), torch.ones(100)]
    graph = record_function(lambda x, m, _: x[:, ::2] * m, Workload(name="w", arguments=specs), values)
    assert whole_bytes(graph) == 4 * (24 + 12 + 12)
