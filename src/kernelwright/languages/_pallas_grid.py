"""Grid and block specifications of a `pallas_call` → an error where a TPU would read, write or skip what it should not.

A TPU runs the grid's points one after the other, the last dimension fastest, and keeps a block of an output in its fast
memory for as long as neighbouring points ask for the same one. A block that is asked for again later is fetched anew or
not at all, and what no point asks for is never written. Interpret mode hides both, and an index map that leads out of
the array too, which it clamps.

Source: JAX documentation, "Grids and BlockSpecs" and "Pallas TPU details", on revisited output blocks and index maps.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_MOST_POINTS = 1_000_000


class GridError(ValueError):
    """A grid or block specification that is wrong on a TPU."""


def check_grid(options: Mapping[str, Any], arguments: Sequence[Any], out_shape: Any, kernel: str) -> None:
    """Check the specifications of a call.

    Args:
        options: What `pallas_call` was given by name.
        arguments: The arrays that its result is called with.
        out_shape: Shapes of the outputs.
        kernel: Its name, for messages.

    Raises:
        GridError: an index map leads out of its array or has another rank, or an output's blocks are left out, or
            revisited after another block.
    """
    source = options.get("grid_spec")
    if source is not None and getattr(source, "num_scalar_prefetch", None):
        return  # index maps depend on data
    grid, in_specs, out_specs = _specifications(options, source)
    points = _points(grid, kernel)
    outputs = list(out_shape) if isinstance(out_shape, tuple | list) else [out_shape]
    for role, specs, arrays in (("input", in_specs, arguments), ("output", out_specs, outputs)):
        for i, (spec, array) in enumerate(zip(specs, arrays, strict=False)):
            name = f"{role} {i} of {kernel}"
            blocks = _blocks(spec, tuple(array.shape), points, name)
            if blocks is not None and role == "output":
                _check_visits(*blocks, grid, name)


def _specifications(options: Mapping[str, Any], source: Any) -> tuple[tuple[int, ...], list[Any], list[Any]]:
    def given(name: str, other: Any) -> Any:
        return getattr(source, name) if source is not None else options.get(name, other)

    grid = given("grid", ())
    specs = [given(name, ()) for name in ("in_specs", "out_specs")]
    listed = [list(s) if isinstance(s, tuple | list) else [s] for s in specs]
    return tuple(grid) if isinstance(grid, tuple | list) else (grid,), listed[0], listed[1]


def _points(grid: tuple[int, ...], kernel: str) -> list[np.ndarray]:
    """Return the coordinates of every grid point, in the order in which they run."""
    if not all(isinstance(size, int) and size > 0 for size in grid):
        raise GridError(f"the grid of {kernel} is {grid}; expected whole numbers above zero")
    count = int(np.prod(grid, dtype=object)) if grid else 1
    if count > _MOST_POINTS:
        raise NotImplementedError(f"Unsupported: a grid of {count} points is too large to interpret")
    return [axis.reshape(-1) for axis in np.indices(grid)] if grid else []


def _blocks(
    spec: Any, shape: tuple[int, ...], points: list[np.ndarray], name: str
) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """Return the block that each point asks for, and how many there are by dimension; None if that is not known."""
    block_shape, index_map = getattr(spec, "block_shape", None), getattr(spec, "index_map", None)
    if block_shape is None or index_map is None:
        return None
    if len(block_shape) != len(shape):
        raise GridError(
            f"{name} has blocks {tuple(block_shape)} and shape {shape}; expected as many dimensions"
        )
    sizes = [_size(size) for size in block_shape]
    if None in sizes:
        return None
    counts = tuple(-(-length // size) for length, size in zip(shape, sizes, strict=True) if size)
    asked = _asked(index_map, points, len(shape), name)
    for axis, count in enumerate(counts):
        wrong = np.flatnonzero((asked[axis] < 0) | (asked[axis] >= count))
        if wrong.size:
            point = tuple(int(p[wrong[0]]) for p in points)
            raise GridError(
                f"the index map of {name} gives block {int(asked[axis][wrong[0]])} along dimension {axis} at grid "
                f"point {point}; there are blocks 0 to {count - 1} of {sizes[axis]} in {shape[axis]}"
            )
    return np.ravel_multi_index(tuple(asked), counts), counts


def _size(size: Any) -> int | None:
    """Return a block's length in one dimension; None if the specification counts elements rather than blocks."""
    if size is None or type(size).__name__ == "Squeezed":
        return 1
    if type(size).__name__ == "Blocked":
        return int(size.block_size)
    return size if isinstance(size, int) else None


def _asked(index_map: Callable[..., Any], points: list[np.ndarray], rank: int, name: str) -> list[np.ndarray]:
    """Evaluate the index map at every point: at once where it takes arrays, else one by one."""
    count = points[0].size if points else 1
    try:
        found = _tuple(index_map(*points))
        made = [np.broadcast_to(np.asarray(axis), (count,)) for axis in found]
    except Exception:  # noqa: BLE001 - an index map is the candidate's and may do anything that takes one number only
        each = [_tuple(index_map(*(int(p[i]) for p in points))) for i in range(count)]
        made = [np.asarray([int(axis) for axis in column]) for column in zip(*each, strict=True)]
    if len(made) != rank:
        raise GridError(
            f"the index map of {name} gives {len(made)} numbers; expected {rank}, one for each dimension"
        )
    return made


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _check_visits(asked: np.ndarray, counts: tuple[int, ...], grid: tuple[int, ...], name: str) -> None:
    starts = np.flatnonzero(np.diff(asked, prepend=-1))
    runs = asked[starts]
    missing = np.setdiff1d(np.arange(int(np.prod(counts))), runs)
    if missing.size:
        block = tuple(map(int, np.unravel_index(int(missing[0]), counts)))
        raise GridError(
            f"no grid point writes block {block} of {name}; {missing.size} of {np.prod(counts)} are left out"
        )
    first = {int(block): int(start) for block, start in zip(runs[::-1], starts[::-1], strict=True)}
    again = next((int(s) for b, s in zip(runs, starts, strict=True) if first[int(b)] != s), None)
    if again is not None:
        block = tuple(map(int, np.unravel_index(int(asked[again]), counts)))
        point = tuple(map(int, np.unravel_index(again, grid)))
        raise GridError(
            f"block {block} of {name} is visited again at grid point {point} after another one; visits to a block "
            "must be neighbours: put the dimension of the grid that it does not depend on last"
        )
