"""The benchmark of software devices: medians of schedules and naive kernels, and refusals counted."""

from benchmarks.devices import gain, table

TIMED = {
    "problem": "softmax", "language": "wgsl", "actions": "", "off": {"schedule": 1e-7, "naive": 2e-7},
    "times_us": {"schedule": [2.0, 1.0, 9.0], "naive": [8.0, 8.0, 1.0]},
}  # fmt: skip
REFUSED = {"problem": "mlp", "language": "wgsl", "refused": "torch computes mm"}


def test_the_table_compares_medians_and_counts_refusals():
    assert gain(TIMED) == 4.0
    lines = table([TIMED, REFUSED]).splitlines()
    assert "4.00 times, off by 2.0e-07" in lines[0] and "torch computes mm" in lines[1]
    assert lines[2] == "wgsl: 1 of 2 problems printed, geomean over a naive kernel an operation 4.00"
