"""The judge accepts the kernels of mixtures of experts and refuses mutants of them."""

import pytest
from tests.ops.mutants import verdicts

GATES = {
    "later of equals": ("values[i] > values[found]", "values[i] >= values[found]"),
    "not renormalised": ("g.renormalised ? weights[k]", "g.renormalised && k ? weights[k]"),
}
EXPERTS = {
    "the weight of a token's first expert": ("weights ? weights[at]", "weights ? weights[at / each * each]"),
    "gate and up swapped": ("silu(gate) * other", "silu(other) * gate"),
    "the last expert left out": (
        "for (int64_t g = 0; g < s.groups; ++g)",
        "for (int64_t g = 0; g + 1 < s.groups; ++g)",
    ),
    "only the last expert kept": ("fma(low, weight, load(to, Full{}))", "low * weight"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("position", "mutants"), [(0, GATES), (3, EXPERTS)])
def test_the_judge_refuses_mutants(position, mutants, tmp_path):
    found = verdicts("moe", position, mutants, tmp_path)
    assert found == {"right": "accepted"} | dict.fromkeys(mutants, "rejected")
