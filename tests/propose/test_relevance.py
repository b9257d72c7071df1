"""Which counters a model is shown: those of the class of bottleneck that binds the candidate."""

import pytest

from kernelwright.propose._relevance import bottleneck_of, relevant
from kernelwright.records import Bound, BoundTerm, Build, BuildStatus, Counters
from kernelwright.testing import PlantedJudge, planted_candidate


def evaluated(time_us, **figures):
    found = PlantedJudge().screen(planted_candidate({"w": time_us}), Build(status=BuildStatus.OK))
    counters = Counters(tool="ncu", workload="w", calls=1, figures=figures, remarks=("waits for a barrier",))
    return found.model_copy(update={"counters": (counters,) if figures else ()})


def bound(name, unit, time_us=100.0):
    return Bound(workload="w", device="d", terms=(
        BoundTerm(name=name, amount=time_us * 1e6, unit=unit, peak=1e12, source="planted"),
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("dram", "sm", "wanted"),
    [(84, 20, "memory"), (30, 90, "compute"), (80, 80, "memory"), (40, 59, "latency")],
)
def test_a_gpus_own_figures_tell_what_binds(dram, sm, wanted):
    assert bottleneck_of(evaluated(20.0, dram_percent=dram, sm_percent=sm)) == wanted


@pytest.mark.parametrize(
    ("one", "time_us", "wanted"),
    [
        (bound("dram", "bytes"), 150.0, "memory"),
        (bound("fma", "flop"), 150.0, "compute"),
        (bound("dram", "bytes"), 900.0, "latency"),
    ],
)
def test_else_the_bound_tells_or_that_it_is_far_from_it(one, time_us, wanted):
    assert bottleneck_of(evaluated(time_us), (one,)) == wanted


def test_without_a_bound_nothing_is_known_to_bind():
    assert bottleneck_of(evaluated(20.0)) == "latency"


def test_only_what_matters_is_left_and_remarks_speak_of_latency():
    (counters,) = evaluated(
        20.0, gpu_us=3.0, dram_percent=84.0, sm_percent=20.0, occupancy_percent=9.0
    ).counters
    assert relevant(counters, "memory").figures == {"gpu_us": 3.0, "dram_percent": 84.0}
    assert relevant(counters, "memory").remarks == ()
    assert relevant(counters, "latency").figures == {"gpu_us": 3.0, "occupancy_percent": 9.0}
    assert relevant(counters, "latency").remarks == ("waits for a barrier",)
    nothing = counters.model_copy(update={"figures": {"gpu_us": 3.0}, "remarks": ()})
    assert relevant(nothing, "compute") is None
