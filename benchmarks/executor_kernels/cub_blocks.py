"""The collectives of CUB, of a warp and of a block, as its headers have them: scans, sums, sorts, exchanges."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .family import BLOCK, RACE, UNWRITTEN, Family, Launch, blocks, output, padded, values

SOURCE = Path(__file__).with_suffix(".cu")
TILE = 256
SIZES = (256, 100, 1000, 257, 513)


def family(
    right: Callable[[Any], Any],
    *,
    beyond: int = 0,
    each: int = TILE,
    to: int = 0,
    types: tuple[str, ...] = ("float", "double", "int"),
    sizes: tuple[int, ...] = SIZES,
    faults: dict[int, str] | None = None,
) -> Family:
    """Return a family whose answer is a function of each block's values; `to` values a block, or as many as it got."""

    def launch(rng: np.random.Generator, dtype: Any, n: int) -> Launch:
        x = values(rng, dtype, n)
        answer = right(padded(x, each, beyond)).astype(dtype).reshape(-1)
        out = output(dtype, blocks(n, each) * to if to else n)
        answer = answer[: out.array.size]
        return blocks(n, each), [x, out, n], 0, lambda: np.array_equal(out.array, answer)

    return Family(SOURCE, launch, faults or {}, types, sizes)


def largest_before(tile: Any) -> Any:
    """The largest of the values before each."""
    first = np.full((len(tile), 1), -100, tile.dtype)
    return np.maximum.accumulate(np.hstack([first, tile]), 1)[:, :-1]


def moved(tile: Any) -> Any:
    """Twice each value, and its place in threes."""
    return tile * 2 + np.arange(TILE) % 3


def differences(tile: Any) -> Any:
    """Each value less the one before it."""
    return np.hstack([tile[:, :1], np.diff(tile, axis=1)])


def heads(tile: Any) -> Any:
    """One where a value differs from the one before it."""
    return np.hstack([np.ones((len(tile), 1)), np.diff(tile, axis=1) != 0])


def warps(tile: Any) -> Any:
    """Sums before each value in a warp, and the largest of each half warp."""
    lanes = tile.reshape(-1, 32)
    before = np.cumsum(lanes, 1) - lanes
    largest = np.repeat(tile.reshape(-1, 16).max(1), 16).reshape(-1, 32)
    return before * 100 + largest


def counted(tile: Any) -> Any:
    """How often each value is there."""
    return np.stack([np.bincount(row.astype(int) + 8, minlength=32) for row in tile])


def repeated(tile: Any) -> Any:
    """Each value as often as its thread says, 256 in a block."""
    times = 1 + np.arange(BLOCK) % 7
    times[-1] = 4
    return np.stack([np.repeat(row, times) for row in tile])


def sorted_warps(tile: Any) -> Any:
    """Sort what each warp holds."""
    return np.sort(tile.reshape(-1, 128), 1)


SCAN = family(lambda tile: np.cumsum(tile, 1))
SUM = family(lambda tile: tile.sum(1), to=1)
FAMILIES = {
    "scan_raking": SCAN,
    "scan_memoize": SCAN,
    "scan_warps": SCAN,
    "scan_larger": family(largest_before),
    "sum_raking": SUM,
    "sum_commutative": SUM,
    "sum_warps": SUM,
    "radix_sort": family(lambda tile: np.sort(tile, 1), beyond=100),
    "radix_pairs": family(lambda tile: 2 * np.sort(tile, 1)[:, ::-1], beyond=-100),
    "merge_sort": family(lambda tile: np.sort(tile, 1), beyond=100),
    "warp_merge": family(sorted_warps, beyond=100),
    "move_transpose": family(moved),
    "move_warps": family(moved),
    "move_vectors": family(moved),
    "exchange": family(lambda tile: tile, faults={1: RACE}),
    "twice": family(lambda tile: np.cumsum(np.cumsum(tile, 1), 1), faults={1: RACE}),
    "difference": family(differences),
    "heads": family(heads),
    "warp_scan": family(warps, each=BLOCK),
    "histogram_sort": family(counted, beyond=8, to=32, types=("int",)),
    "histogram_atomic": family(counted, beyond=8, to=32, types=("int",), faults={1: f"{RACE} {UNWRITTEN}"}),
    "run_lengths": family(repeated, each=BLOCK, to=TILE, sizes=(64, 128, 640)),
}
