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


@pytest.mark.long
@pytest.mark.parametrize(("op", "mutants"), [("moe_gate", GATES), ("moe_experts", EXPERTS)])
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, mutants, tmp_path):
    found = verdicts("moe", op, mutants, tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
