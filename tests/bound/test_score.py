import pytest

from kernelwright.bound import headroom, slack_of, sol_score
from kernelwright.devices import Device


@pytest.mark.parametrize(
    ("time_us", "baseline_us", "expected"),
    [
        (20, 20, 0.5), (10, 20, 1.0), (30, 20, 1 / 3), (15, 20, 2 / 3),
        (8, 20, 1.0), (10, 10, 1.0), (11, 10, 0.0), (9, 8, 1.0),
    ],
)  # fmt: skip
def test_sol_score(time_us: float, baseline_us: float, expected: float) -> None:
    assert sol_score(time_us, baseline_us, 10.0) == pytest.approx(expected)


def test_headroom_is_at_least_one() -> None:
    assert headroom(25.0, 10.0) == pytest.approx(2.5)
    assert headroom(5.0, 10.0) == 1.0


def test_shared_machines_get_more_slack() -> None:
    bare = Device(kind="cpu", name="n", cores=1, memory_bytes=1, torch_device="cpu")
    assert slack_of(bare) < slack_of(bare.model_copy(update={"facts": {"hypervisor": True}})) < 1
