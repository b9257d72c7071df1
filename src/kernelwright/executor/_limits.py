"""What a launch may ask for: sizes of grid, block, cluster and shared memory."""

from collections.abc import Sequence
from typing import Final

from ..errors import InputError
from ._ir import Function

_MOST_SHARED: Final = 227 << 10
"""Bytes of shared memory that a block may have on the greatest device (sm_90)."""
MOST_THREADS: Final = 1024
_MOST_RESIDENT: Final = 64
_MOST_CLUSTER: Final = 16
"""Blocks of a cluster that a kernel may have where it asks for more than the portable eight."""
Shape = int | Sequence[int]
Dims = tuple[int, int, int]


def shape_of(value: Shape, what: str) -> Dims:
    """Return one to three positive numbers as three."""
    dims = [value] if isinstance(value, int) else list(value)
    if not 1 <= len(dims) <= 3 or any(not isinstance(d, int) or d < 1 for d in dims):
        raise InputError(f"a {what} of {value!r}; expected one to three positive numbers")
    x, y, z = (*dims, 1, 1)[:3]
    return x, y, z


def cluster_of(entry: Function, grid: Dims, cluster: Shape | None) -> Dims:
    """Return the blocks of a cluster, as the kernel requires or else as given; zeros where neither asks for clusters.

    Raises:
        InputError: they contradict each other, are too many, or do not make up the grid.
    """
    required = entry.required_cluster
    if cluster is None and not required:
        return 0, 0, 0
    given = shape_of(cluster or 1, "cluster")
    x, y, z = required or given
    if required and given not in {(1, 1, 1), (x, y, z)}:
        raise InputError(f"{entry.name!r} must be launched in clusters of {required}, not {given}")
    if x * y * z > _MOST_CLUSTER:
        raise InputError(f"a cluster of {(x, y, z)} is more than {_MOST_CLUSTER} blocks")
    if grid[0] % x or grid[1] % y or grid[2] % z:
        raise InputError(f"a grid of {grid} is not made of clusters of {(x, y, z)} blocks")
    return x, y, z


def refuse(entry: Function, grid: Dims, block: Dims, shared: tuple[int, int], *, whole: bool) -> None:
    """Refuse what no device launches.

    Args:
        entry: The kernel.
        grid: Blocks.
        block: Threads of a block.
        shared: Bytes of shared memory that the launch asks for, and that the kernel declares.
        whole: Whether it waits for its whole grid.

    Raises:
        InputError: in one sentence, what is too much.
    """
    total = block[0] * block[1] * block[2]
    if total > MOST_THREADS or block[2] > 64:
        raise InputError(f"a block of {block} is more than {MOST_THREADS} threads (64 in z)")
    if grid[0] >= 1 << 31 or max(grid[1:]) > 65535 or grid[0] * grid[1] * grid[2] >= 1 << 31:
        raise InputError(f"a grid of {grid} is more than 2^31 - 1 blocks (65535 in y and z)")
    if whole and grid[0] * grid[1] * grid[2] > _MOST_RESIDENT:
        raise InputError(
            f"{entry.name!r} waits for its whole grid; {_MOST_RESIDENT} blocks at most are resident, not {grid}"
        )
    asked, declared = shared
    if asked < 0 or asked + declared > _MOST_SHARED:
        own = f" and {declared} that {entry.name!r} declares" if declared else ""
        raise InputError(f"{asked} bytes of shared memory{own}; a block has {_MOST_SHARED} at most")
    if entry.required_threads and tuple(entry.required_threads) != block:
        raise InputError(
            f"{entry.name!r} must be launched with blocks of {entry.required_threads}, not {block}"
        )
    if entry.most_threads and total > entry.most_threads:
        raise InputError(f"{entry.name!r} takes blocks of at most {entry.most_threads} threads, not {total}")
