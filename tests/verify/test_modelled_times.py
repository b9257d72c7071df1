"""What a worker says of its launches: a time each, or why there is none; never a reason to refuse."""

from types import SimpleNamespace

import pytest

from kernelwright.records import CheckStatus, ModelledTime
from kernelwright.sandbox import FailureKind, WorkerFailure
from kernelwright.verify._modelled import launches_since

LAUNCH = ModelledTime(
    device="a GPU", low_us=2.0, high_us=8.0, term="dram", terms_us={"dram": (2.0, 4.0), "start": (1.0, 4.0)},
    occupancy=0.5, limited_by="threads", operations_per_byte=1.0, ridge=2.0,
)  # fmt: skip
LONG = LAUNCH.model_copy(
    update={"low_us": 20.0, "high_us": 80.0, "occupancy": 1.0, "terms_us": {"l2": (20.0, 40.0)}}
)


def worker(answer):
    def modelled(registers):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(modelled=modelled)


def test_launches_are_handed_on():
    assert launches_since(worker((LAUNCH,)), 32) == (LAUNCH,)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((), "no kernel was launched"),
        (
            WorkerFailure(FailureKind.ERROR, "InputError: no model of a call with 256 launches or more"),
            "256 launches",
        ),
        (WorkerFailure(FailureKind.PROTOCOL, "not what was asked for"), "not what was asked for"),
    ],
)
def test_what_has_no_model_is_unknown_and_not_wrong(answer, said):
    found = launches_since(worker(answer), 32)
    assert found.status is CheckStatus.UNKNOWN and said in found.message


def test_launches_of_a_call_are_added_up():
    both = ModelledTime.together((LAUNCH, LONG), "n=4")
    assert (both.low_us, both.high_us, both.launches, both.workload) == (22.0, 88.0, 2, "n=4")
    assert both.terms_us == {"dram": (2.0, 4.0), "start": (1.0, 4.0), "l2": (20.0, 40.0)}
    assert (both.term, both.occupancy) == ("l2", 1.0)
    assert "22 to 88 us in 2 launches" in str(both)
