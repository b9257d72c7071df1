"""The speed script puts problems into classes and sums rows up; what it measures is not tested."""

import pytest
from benchmarks.problems import OWN
from benchmarks.schedule import class_of, gained, interval, table

from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import capture


@pytest.mark.parametrize(
    ("path", "name"),
    [("level1/leaky_relu", "memory"), ("level1/matmul_tall_skinny", "fused"), ("level1/matmul_square", "contraction"),
     ("level2/conv_relu_bias", "contraction")],
)  # fmt: skip
def test_the_class_follows_from_operations_and_bytes(path, name):
    task = load_task(OWN / f"{path}.py")
    assert class_of(capture(Problem(task), task.split(Split.SEARCH)[0])) == name


def test_what_was_not_accepted_counts_as_no_gain():
    row = {"decision": "inconclusive", "speedup": {"median": 3.0}}
    assert gained(row) == 1.0 and gained({**row, "decision": "improved"}) == 3.0


def test_the_interval_holds_the_geomean_and_is_the_same_again():
    values = [1.0, 1.5, 2.0, 2.5, 1.2, 1.8]
    low, high = interval(values)
    assert 1.0 < low < 1.6 < high < 2.5 and (low, high) == interval(values)


def test_the_table_has_a_line_a_class_and_size():
    row = {
        "level": 1, "problem": "a", "size": "in", "class": "memory", "decision": "improved", "baseline": "eager",
        "speedup": {"median": 2.0}, "search_s": 20.0, "explored_s": 12.0, "first_s": 3.0,
        "verified_s": 1.5, "first_correct_s": 0.7,
    }  # fmt: skip
    text = table(
        [
            row,
            {
                **row,
                "problem": "b",
                "decision": "equal",
                "first_s": None,
                "verified_s": None,
                "first_correct_s": None,
            },
        ]
    )
    assert "memory, in of cache: 2 problems, 1 improved, geomean over the better baseline 1.41" in text
    both = table([row, {**row, "class": "fused", "speedup": {"median": 8.0}}])
    assert (
        "memory and fused, in of cache: 2 problems, 2 improved, geomean over the better baseline 4.00" in both
    )
    assert "search: median 12.0 s" in text and "search and acceptance: median 20.0 s" in text
    assert "first correct kernel, from capture on: median 0.7 s" in text
    assert "first correct kernel: median 1.5 s" in text and "against eager: " not in text
    assert "first kernel timed against every baseline: median 3.0 s" in text
