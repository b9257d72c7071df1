"""The judge accepts the low-bit kernel and refuses mutants of it."""

import pytest
from tests.ops.mutants import verdicts

MUTANTS = {
    "halves of a byte swapped": ("S * (j / S) - At", "S * (8 / S - 1 - j / S) - At"),
    "scales of the next group": (
        "first = (panel * count + group) * kPanel",
        "first = (panel * count + std::min(group + 1, count - 1)) * kPanel",
    ),
    "zero points forgotten": ("splat<M>(-x.sums.data", "splat<M>(0 * x.sums.data"),
    "the lowest byte lost": (
        "splat(256.0f), from_integers(acc[r][p][v])",
        "splat(256.0f), p ? from_integers(acc[r][p][v]) : F{}",
    ),
    "the last output left out": (
        "put(n, Part{static_cast<int>(width - n)})",
        "put(n, Part{static_cast<int>(width - n - 1)})",
    ),
}  # fmt: skip


@pytest.mark.long
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(tmp_path):
    found = verdicts("lowbit", "lowbit_linear", MUTANTS, tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(MUTANTS, "rejected")
