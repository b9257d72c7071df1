"""The judge accepts the kernels of scans and refuses mutants of them."""

import pytest
from tests.ops.mutants import verdicts

SELECTIVE = {
    "the skip left out": ("F sum = skip * x, other{};", "F sum{}, other{};"),
    "the last state left out": ("if (n < s.states) sum += state(n);", ""),
    "powers of two for powers of e": ("to[i] *= kLog2E", "to[i] *= 1.0f"),
}
LINEAR = {
    "rows see themselves not": ("static_cast<int32_t>(i) + !strict", "static_cast<int32_t>(i)"),
    "the state does not fade": (
        "store(state + i, load(state + i, Full{}) * decays.all, Full{})",
        "store(state + i, load(state + i, Full{}), Full{})",
    ),
    "the first chunk's state for all": (
        "room.u.data, width, state, width, true)",
        "room.u.data, width, state, width, false)",
    ),
    "heads take the next group": ("return head / (heads / groups);", "return head % groups;"),
}
DELTA = {
    "old values stay": ("* decays.from[i]) * beta[i], Full{})", "* 0.0f) * beta[i], Full{})"),
    "rows of a block do not meet": ("for (int64_t s = 0; s < r; ++s)", "for (int64_t s = 1; s < r; ++s)"),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "mutants"), [("scan_selective", SELECTIVE), ("scan_linear", LINEAR), ("scan_delta", DELTA)]
)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, mutants, tmp_path):
    found = verdicts("scan", op, mutants, tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
