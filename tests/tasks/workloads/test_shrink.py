"""The shrinker on planted couplings."""

import pytest

from kernelwright.errors import TaskError
from kernelwright.tasks.workloads._shrink import Shrinker


def test_the_largest_shrinks_first_and_small_options_stay() -> None:
    found = Shrinker(lambda v: v["rows"] * v["dim"]).shrink({"rows": 64, "dim": 4096, "kernel": 3}, 1 << 12)
    assert found == {"rows": 64, "dim": 64, "kernel": 3}


def test_what_fits_is_left_alone() -> None:
    assert Shrinker(lambda v: v["n"]).shrink({"n": 100}, 100) == {"n": 100}


def test_constants_that_must_be_equal_shrink_together() -> None:
    def measure(v: dict[str, int]) -> int:
        if v["a"] != v["b"]:
            raise TaskError("a and b differ")
        return v["a"] * v["b"]

    assert Shrinker(measure).shrink({"a": 1024, "b": 1024}, 4096) == {"a": 64, "b": 64}


def test_unequal_constants_that_fail_alone_shrink_as_a_pair() -> None:
    def measure(v: dict[str, int]) -> int:
        if v["total"] != v["heads"] * 64:
            raise TaskError("heads do not fit")
        return v["total"]

    assert Shrinker(measure).shrink({"total": 2048, "heads": 32}, 256) == {"total": 256, "heads": 4}


def test_a_square_and_its_side_shrink_together() -> None:
    def measure(v: dict[str, int]) -> int:
        if v["cells"] != v["side"] ** 2:
            raise TaskError("cells are no square")
        return v["cells"]

    assert Shrinker(measure).shrink({"cells": 4096, "side": 64}, 300) == {"cells": 256, "side": 16}


def test_ratios_among_tied_constants_are_kept() -> None:
    tied = frozenset({"channels", "groups"})
    found = Shrinker(lambda v: v["channels"] ** 2, tied).shrink({"channels": 8192, "groups": 512}, 256**2)
    assert found["channels"] == 256
    assert found["channels"] % found["groups"] == 0
    assert found["channels"] // found["groups"] >= 2


def test_a_ratio_to_two_is_kept_too() -> None:
    values = {"channels": 66, "groups": 2}
    with pytest.raises(TaskError, match="channels = 66, groups = 2"):
        Shrinker(lambda v: v["channels"], frozenset(values)).shrink(values, 40)


def test_untied_constants_may_become_equal() -> None:
    found = Shrinker(lambda v: v["channels"] ** 2).shrink({"channels": 8192, "groups": 512}, 256**2)
    assert found == {"channels": 256, "groups": 512}


def test_joint_moves_every_equal_value() -> None:
    found = Shrinker(lambda v: v["size"], joint=True).shrink({"size": 4096, "range": 4096}, 1024)
    assert found == {"size": 1024, "range": 1024}


def test_smaller_constants_move_where_nothing_larger_can() -> None:
    found = Shrinker(lambda v: v["n"] ** 5).shrink({"n": 32, "kernel": 3}, 1 << 10)
    assert found == {"n": 4, "kernel": 3}


def test_larger_constants_move_before_smaller_ones() -> None:
    found = Shrinker(lambda v: v["n"] * v["m"]).shrink({"n": 64, "m": 12}, 128)
    assert found == {"n": 8, "m": 12}


def test_when_nothing_is_left_it_says_what_is() -> None:
    with pytest.raises(TaskError, match=r"below 8,192 .* at most 10.*n = 8192"):
        Shrinker(lambda v: 8192 if v["n"] == 8192 else _refuse()).shrink({"n": 8192}, 10)


def test_small_values_move_when_nothing_else_is_left_unless_the_model_is_made_with_them() -> None:
    sizes, tied = {"batch": 10, "groups": 8, "kernel": 3}, frozenset({"groups", "kernel"})
    assert Shrinker(lambda v: v["batch"] * 100, tied).least(sizes) == {"batch": 2, "groups": 8, "kernel": 3}


def _refuse() -> int:
    raise TaskError("no other size works")
