"""Registers, shared memory and threads of a block → how many blocks an NVIDIA multiprocessor holds at once.

Covers: compute capabilities 8.0 to 12.0, at the greatest part of the L1 cache that may be shared memory.
Does not cover: clusters, which need room on several multiprocessors; tensor memory of sm_100.
"""

import math
from dataclasses import dataclass
from typing import Final

_WARP: Final = 32
_MOST_THREADS: Final = 1024
_REGISTERS: Final = 65_536
_REGISTER_GRAIN: Final = 256
"""Registers that a warp is given at once."""
_PARTITIONS: Final = 4
"""Parts of a multiprocessor; a warp's registers lie in one."""
_SHARED_GRAIN, _SHARED_OF_SYSTEM = 128, 1 << 10
"""Bytes of shared memory that a block is given at once, and those that the system takes of each block."""


@dataclass(frozen=True)
class Core:
    """What a multiprocessor holds.

    Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the rules by which it is
    given to blocks are those of the toolkit's occupancy calculator.
    """

    warps: int
    blocks: int
    shared_bytes: int


CORES: Final = {
    "8.0": Core(64, 32, 164 << 10), "8.6": Core(48, 16, 100 << 10), "8.9": Core(48, 24, 100 << 10),
    "9.0": Core(64, 32, 228 << 10), "10.0": Core(64, 32, 228 << 10), "12.0": Core(48, 24, 100 << 10),
}  # fmt: skip
"""By compute capability."""


@dataclass(frozen=True)
class Occupancy:
    """How a multiprocessor is filled by blocks of one kernel."""

    blocks: int
    """At once; 0 where one block needs more than there is."""
    warps: int
    """Of these blocks."""
    limited_by: str
    """`threads`, `blocks`, `registers` or `shared memory`: what keeps one more block out."""


def occupancy(core: Core, *, threads: int, registers: int = 0, shared_bytes: int = 0) -> Occupancy:
    """Work out how many blocks of a kernel a multiprocessor holds at once.

    Args:
        core: The multiprocessor.
        threads: Of a block.
        registers: Of a thread; 0 where nobody knows: then they limit nothing.
        shared_bytes: Of a block, static and dynamic.

    Example:
        >>> occupancy(CORES["9.0"], threads=256, registers=72)
        Occupancy(blocks=3, warps=24, limited_by='registers')
    """
    warps = math.ceil(threads / _WARP)
    shared = math.ceil((shared_bytes + _SHARED_OF_SYSTEM) / _SHARED_GRAIN) * _SHARED_GRAIN
    fits = {
        "threads": core.warps // warps,
        "blocks": core.blocks,
        "shared memory": core.shared_bytes // shared,
    }
    if registers:
        of_warp = math.ceil(registers * _WARP / _REGISTER_GRAIN) * _REGISTER_GRAIN
        fits["registers"] = _REGISTERS // _PARTITIONS // of_warp * _PARTITIONS // warps
    least = min(fits, key=lambda name: fits[name])
    return Occupancy(fits[least], fits[least] * warps, least)


def core_of(target: str) -> Core | None:
    """Return the multiprocessor of a target such as `sm_90`, `sm_90a`; None where it is not known here.

    Example:
        >>> core_of("sm_120").warps, core_of("sm_70")
        (48, None)
    """
    number = target.removeprefix("sm_").rstrip("af")
    return CORES.get(f"{number[:-1]}.{number[-1:]}")


def most_warps(core: Core, *, registers: int, shared_bytes: int) -> int:
    """Return the warps that a multiprocessor holds at the number of threads that suits a kernel best.

    Args:
        core: The multiprocessor.
        registers: Of a thread.
        shared_bytes: Of a block, static.

    Example:
        >>> most_warps(CORES["9.0"], registers=72, shared_bytes=0)
        28
    """
    sizes = range(_WARP, _MOST_THREADS + 1, _WARP)
    return max(
        occupancy(core, threads=n, registers=registers, shared_bytes=shared_bytes).warps for n in sizes
    )
