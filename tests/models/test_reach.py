"""How fast products run in programs here: what a bound becomes with it, and that it is of the moment."""

from itertools import cycle
from types import SimpleNamespace

import pytest

from kernelwright.devices import Peak, detect, peaks_of
from kernelwright.models import _look as looking
from kernelwright.models import _plan as planning
from kernelwright.models import _reach as reaching
from kernelwright.models import load_model
from kernelwright.models._reach import reach_of, reached_us
from kernelwright.records import Bound, BoundTerm, BuildStatus


def term(name, amount, peak, unit="flop", kind="ports"):
    return BoundTerm(name=name, amount=amount, unit=unit, peak=peak, source="planted", kind=kind)


FOUND = Bound(
    workload="w", device="d", slack=0.1,
    terms=(
        term("dram", 3e3, 1e9, "bytes", "floor"), term("float32", 4e6, 1e12), term("erf", 1e3, 1e9, "elements"),
        term("call", 1.0, 5e5, "launches", "after"),
    ),
)  # fmt: skip
"""Memory 3 us, products 4 us, functions 1 us, a call 2 us."""


@pytest.mark.parametrize(("per_s", "wanted"), [(5e11, 8 + 1 + 2), (2e12, 4 + 1 + 2), (None, 4 + 1 + 2)])
def test_products_take_what_they_take_in_programs_and_nothing_else_changes(per_s, wanted):
    products = Peak(value=per_s, unit="flop", source="planted") if per_s else None
    assert FOUND.attainable_us == pytest.approx(7) and reached_us(FOUND, products) == pytest.approx(wanted)


@pytest.mark.needs("C++ compiler")
def test_the_rate_of_products_lies_near_the_peak():
    device = detect("cpu")
    found, peak = reach_of(device), peaks_of(device).get("tensor-float32")
    assert found is not None and peak is not None and 0.02 < found.value / peak.value < 1.5


@pytest.mark.needs("C++ compiler")
def test_a_machine_whose_products_are_slow_promises_less_of_one_program_and_of_regions(small, monkeypatch):
    """Planted: regions of 10 ms, of which no machine's launches are a part that matters."""
    loaded, expected, parts = load_model(small), [], []
    monkeypatch.setattr(looking.Look, "_time_us", lambda *_: 1e4)
    for per_s in (1e15, 1e8):
        planted = Peak(value=per_s, unit="flop", source="planted")
        monkeypatch.setattr(planning, "reach_of", lambda _, planted=planted: planted)
        made = planning.planned(loaded, device=detect("cpu")).plan
        expected.append(made.whole.gain.expected / made.time_us)
        assert made.whole.reach_us >= made.whole.bound_us
        row = next(r for r in made.regions if r.label == "layers.0")
        parts.append(row.gain.expected / row.time_us)
    assert expected[1] < expected[0] and parts[1] < parts[0]


def test_a_rate_is_of_the_moment_in_which_a_plan_is_made(monkeypatch):
    """Planted: calls that take 2 ms, of which one in ten is disturbed, and 3 ms in a later moment."""
    clock, took, disturbed = [0.0], [2e-3], cycle([5.0] + 9 * [1.0])

    def call(_):
        clock[0] += took[0] * next(disturbed)

    build = SimpleNamespace(status=BuildStatus.OK, artefact="")
    monkeypatch.setattr(reaching, "load_library", lambda _: SimpleNamespace(get_function=lambda _: call))
    monkeypatch.setattr(reaching, "get_language", lambda _: SimpleNamespace(build=lambda _: build))
    monkeypatch.setattr(reaching.time, "thread_time", lambda: clock[0])
    device = SimpleNamespace(kind="cpu", cores=1)
    for took[0] in (2e-3, 3e-3):
        assert reach_of(device).value == pytest.approx(2 * 64 * (8 << 20) / 4 / took[0])
    assert reach_of(SimpleNamespace(kind="gpu")) is None
