"""Addresses of a wave → bank conflicts in local data share (LDS), by instruction.

A wave's 64 lanes are served in *phases*; lanes conflict only within a phase, where they read different dwords of one
bank. Which lanes share a phase, and how many banks there are, depends on the instruction and the GPU, and no manual
says it in full: the table holds only what was measured and published.

Source: gfx950: the conflict matrices published with HipKittens (arXiv 2511.08083), analysis/paper_experiments/phases.
gfx942, 16 bytes: ROCm blog, "Avoiding LDS bank conflicts on AMD GPUs". 4 bytes: CDNA 3 ISA guide, section on LDS,
32 banks of 4 bytes and 128 bytes a clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import InputError

_WAVE: Final = 64
_Phases = tuple[tuple[int, ...], ...]


def _in_turn(lanes: int) -> _Phases:
    return tuple(tuple(range(first, first + lanes)) for first in range(0, _WAVE, lanes))


def _crossed(*quads: tuple[int, ...]) -> _Phases:
    """Return phases of quads (four neighbouring lanes), the same in both halves of the wave."""
    return tuple(
        tuple(half + 4 * quad + lane for quad in phase for lane in range(4))
        for half in (0, 32)
        for phase in quads
    )


_OCTETS: Final = _crossed((0, 5), (1, 4), (2, 7), (3, 6))
_MEASURED: Final[dict[tuple[str, str, int], tuple[int, _Phases]]] = {
    ("gfx90a", "read", 4): (32, _in_turn(32)),
    ("gfx90a", "write", 4): (32, _in_turn(32)),
    ("gfx942", "read", 4): (32, _in_turn(32)),
    ("gfx942", "write", 4): (32, _in_turn(32)),
    ("gfx942", "read", 16): (32, _OCTETS),
    ("gfx942", "write", 16): (32, _in_turn(8)),
    ("gfx950", "read", 8): (64, _in_turn(32)),
    ("gfx950", "read", 12): (32, _OCTETS),
    ("gfx950", "read", 16): (64, _crossed((0, 3, 5, 6), (1, 2, 4, 7))),
    ("gfx950", "write", 8): (32, _in_turn(16)),
}
"""Target, access and bytes of a lane → banks and phases."""


@dataclass(frozen=True)
class BankConflicts:
    """How long one instruction of a wave keeps the LDS busy."""

    cycles: int
    """Passes over the banks."""
    ideal: int
    """Passes without conflicts: one for each phase that has lanes."""

    @property
    def ways(self) -> float:
        """Passes for each that would do."""
        return self.cycles / self.ideal


def bank_conflicts(
    target: str, access: str, width_bytes: int, addresses: Sequence[int | None]
) -> BankConflicts:
    """Count the passes of one LDS instruction.

    Args:
        target: `gfx942` and the like.
        access: `read` or `write`.
        width_bytes: Bytes of each lane: 16 for `ds_read_b128`.
        addresses: Byte address of each of the 64 lanes; None where the lane is off.

    Raises:
        InputError: not 64 addresses, one that is not aligned, or an instruction whose phases were not published.

    Example:
        >>> bank_conflicts("gfx942", "read", 4, [128 * lane for lane in range(64)]).ways
        32.0
    """
    known = _MEASURED.get((target, access, width_bytes))
    if known is None:
        names = ", ".join(f"{t} {a} {w}" for t, a, w in sorted(_MEASURED))
        raise InputError(f"phases of {target} {access} {width_bytes} are not known; expected one of {names}")
    if len(addresses) != _WAVE:
        raise InputError(f"{len(addresses)} addresses were given; expected one for each of {_WAVE} lanes")
    aligned = width_bytes if width_bytes in (4, 8, 16) else 4
    odd = next((n for n, a in enumerate(addresses) if a is not None and (a < 0 or a % aligned)), None)
    if odd is not None:
        raise InputError(
            f"lane {odd} has address {addresses[odd]}; expected a multiple of {aligned} from 0 on, as phases were "
            f"measured on for {width_bytes} bytes"
        )
    banks, phases = known
    cycles = ideal = 0
    for phase in phases:
        first = [a // 4 for lane in phase if (a := addresses[lane]) is not None]
        dwords = {dword + more for dword in first for more in range(width_bytes // 4)}
        if dwords:
            ideal += 1
            cycles += max(sum(1 for d in dwords if d % banks == bank) for bank in {d % banks for d in dwords})
    return BankConflicts(cycles, ideal)
