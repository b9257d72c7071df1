"""The judge accepts the kernel of convolutions and refuses mutants of it."""

import pytest
from tests.ops.mutants import verdicts

MUTANTS = {
    "a window begins one pixel on": ("tx * p.dilation_x - p.left", "tx * p.dilation_x - p.left + 1"),
    "rows over the edge are read": ("if (row < 0 || row >= p.height) continue;", "if (row < 0) continue;"),
    "the bias left out": ("if (bias) sum += to_scalar(bias[row]);", ""),
    "the bias of the first channel": ("to_scalar(s.bias[row]) : 0.0f", "to_scalar(s.bias[0]) : 0.0f"),
    "an activation left out": ("curve == kSilu ? silu(sum) : sum", "sum"),
    "taps in another order": (
        "p.weights[(K ? j - r : j) * wide + tx]",
        "p.weights[(K ? j - r : j) * wide + wide - 1 - tx]",
    ),
}


@pytest.mark.long
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(tmp_path):
    found = verdicts("conv", "conv", MUTANTS, tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(MUTANTS, "rejected")
