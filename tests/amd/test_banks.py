"""Bank conflicts: counted by hand where phases are known, refused where they are not."""

import pytest

from kernelwright.amd import bank_conflicts
from kernelwright.amd.banks import _MEASURED
from kernelwright.errors import InputError


@pytest.mark.parametrize("known", sorted(_MEASURED), ids=str)
def test_every_lane_is_in_one_phase_and_a_power_of_two_in_a_row_never_conflicts(
    known: tuple[str, str, int],
) -> None:
    _, phases = _MEASURED[known]
    assert sorted(lane for phase in phases for lane in phase) == list(range(64))
    target, access, width = known
    if width != 12:
        assert bank_conflicts(target, access, width, [width * lane for lane in range(64)]).ways == 1


def test_ways_are_the_most_dwords_of_one_bank() -> None:
    def ways(stride: int) -> float:
        return bank_conflicts("gfx942", "read", 4, [4 * stride * lane for lane in range(64)]).ways

    assert [ways(stride) for stride in (0, 1, 2, 4, 32, 33)] == [1, 1, 2, 4, 32, 1]


def test_lanes_that_are_off_cost_nothing() -> None:
    one = bank_conflicts("gfx950", "read", 16, [0, *[None] * 63])
    assert (one.cycles, one.ideal) == (1, 1)


def column(shift: int) -> list[int]:
    """Return where lanes find 16 bytes of one column of 64 x 64 bfloat16 whose columns are exchanged by row."""
    return [row * 128 + ((row >> shift) % 8) * 16 for row in range(64)]


def test_a_swizzle_that_serves_one_gpu_conflicts_on_another() -> None:
    found = {
        target: [
            bank_conflicts(target, "read", 16, a).ways
            for a in ([r * 128 for r in range(64)], column(0), column(1))
        ]
        for target in ("gfx942", "gfx950")
    }
    assert found == {"gfx942": [8, 1, 2], "gfx950": [8, 2, 1]}


def test_what_was_not_published_is_refused() -> None:
    with pytest.raises(
        InputError, match="phases of gfx942 read 8 are not known; expected one of gfx90a read 4"
    ):
        bank_conflicts("gfx942", "read", 8, [0] * 64)
    with pytest.raises(InputError, match="3 addresses were given"):
        bank_conflicts("gfx950", "read", 8, [0] * 3)
    for width, address, aligned in ((8, 6, 8), (16, 8, 16), (12, 6, 4), (4, -4, 4)):
        said = f"lane 1 has address {address}; expected a multiple of {aligned} from 0 on"
        with pytest.raises(InputError, match=said):
            bank_conflicts("gfx942" if width in (4, 16) else "gfx950", "read", width, [0, *[address] * 63])
