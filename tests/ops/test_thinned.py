"""Variants that are left out of a run are ones whose every value others have."""

from types import SimpleNamespace

from tests.ops.conftest import thin_out


def test_every_value_of_each_parameter_runs():
    marked = []
    variants = [
        SimpleNamespace(
            nodeid=f"t.py::test[{a}-{b}]",
            callspec=SimpleNamespace(params={"a": a, "b": b}),
            add_marker=lambda mark, at=(a, b): marked.append((at, mark)),
        )
        for a in range(9)
        for b in range(7)
    ]
    thin_out(variants)
    left = {(a, b) for a in range(9) for b in range(7)} - {at for at, _ in marked}
    assert {a for a, _ in left} == set(range(9)) and {b for _, b in left} == set(range(7))
    assert 15 < len(left) < 35 and all(mark.name == "long" for _, mark in marked)
