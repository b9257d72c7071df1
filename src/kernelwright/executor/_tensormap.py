"""An array as a tensor map, which `cuTensorMapEncodeTiled` makes where there is a GPU: for kernels that use TMA.

A device's map is opaque; the 128 bytes here are the executor's own (`native/tensormap.cpp`).

Covers: tiles of tensors of one to five dimensions, steps from one line to the next in loads, the swizzles of 32, 64
and 128 bytes, zeros or NaN outside.
Does not cover: interleaved layouts, packed types of 4 and 6 bits. `_im2col.py` has columns of pixels.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..errors import InputError

_TYPES: Final = {
    "uint8": (0, 1), "int8": (0, 1), "bool": (0, 1), "float8_e4m3fn": (0, 1), "float8_e5m2": (0, 1), "uint16": (1, 2),
    "int16": (1, 2), "uint32": (2, 4), "int32": (3, 4), "uint64": (4, 8), "int64": (5, 8), "float16": (6, 2),
    "float32": (7, 4), "float64": (9, 8), "bfloat16": (10, 2),
}  # fmt: skip
"""The number that `tensormap.replace` gives a type, and its bytes."""
MOST_STEP: Final = 8
_SWIZZLES: Final = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_BYTES: Final = 128


@dataclass(frozen=True)
class TensorMap:
    """An array whose tiles a kernel copies by TMA; stands for a parameter of 128 bytes (`CUtensorMap`).

    Raises:
        InputError: where no device could have such a map; the message says what it would take.

    Example:
        >>> import numpy
        >>> TensorMap(numpy.zeros((64, 128), numpy.float32), (8, 32), swizzle=128).box
        (8, 32)
    """

    array: Any
    """A numpy array, a torch tensor on the CPU or an `Uninitialised` one; its last dimension is contiguous."""
    box: Sequence[int]
    """Elements of a tile in each dimension, in the order of the array's."""
    swizzle: int = 0
    """Bytes over which a tile's pieces of 16 bytes are exchanged in shared memory: 0, 32, 64 or 128."""
    fill: str = "zero"
    """What a tile holds where it lies outside the array: `zero` or `nan`."""
    steps: Sequence[int] = ()
    """Elements from one of a tile to the next in each dimension but the last, in the array's order; ones by default. Of
    a box of 8 with steps of 3 a tile has 3, that is ceil(8 / 3). Source: CUDA driver API, `cuTensorMapEncodeTiled`."""

    def __post_init__(self) -> None:
        kind, sizes, strides = self._facts()
        problems = {
            f"an array of {kind}; expected one of {', '.join(_TYPES)}": kind not in _TYPES,
            f"a swizzle of {self.swizzle}; expected 0, 32, 64 or 128": self.swizzle not in _SWIZZLES,
            f"a fill of {self.fill!r}; expected 'zero' or 'nan'": self.fill not in {"zero", "nan"},
            **self._problems(tuple(self.box), sizes),
        }  # fmt: skip
        for problem, given in problems.items():
            if given:
                raise InputError(f"a tensor map of {problem}")
        width = _TYPES[kind][1]
        line = self.box[-1] * width
        if strides[-1] != width and sizes[-1] > 1:
            raise InputError("a tensor map of an array whose last dimension is not contiguous")
        if any(s % 16 or s <= 0 for s in strides[:-1]):
            raise InputError(f"a tensor map with strides of {strides[:-1]} bytes; expected multiples of 16")
        if line % 16 or (self.swizzle and line > self.swizzle):
            expected = f", {self.swizzle} at most" if self.swizzle else ""
            raise InputError(
                f"a tensor map whose box has lines of {line} bytes; expected a multiple of 16{expected}"
            )

    def _problems(self, box: tuple[int, ...], sizes: Sequence[int]) -> dict[str, bool]:
        """Return what may be wrong with a box and its steps, and whether it is."""
        steps_fit = len(self.steps) in {0, len(sizes) - 1} and all(1 <= s <= MOST_STEP for s in self.steps)
        return {
            f"steps of {tuple(self.steps)}; expected 1 to {MOST_STEP} for each dimension but the last": not steps_fit,
            f"{len(sizes)} dimensions; expected 1 to 5": not 1 <= len(sizes) <= 5,
            f"a box of {box} for {len(sizes)} dimensions": len(box) != len(sizes),
            f"a box of {box}; expected 1 to 256 in each dimension": not all(1 <= b <= 256 for b in box),
        }

    def _facts(self) -> tuple[str, list[int], list[int]]:
        value = getattr(self.array, "array", self.array)
        if isinstance(value, np.ndarray):
            return str(value.dtype), list(value.shape), list(value.strides)
        if hasattr(value, "data_ptr"):
            width = value.element_size()
            return (
                str(value.dtype).removeprefix("torch."),
                list(value.shape),
                [s * width for s in value.stride()],
            )
        raise InputError(f"a tensor map of {type(value).__name__}; expected an array or a tensor")

    def encoded(self, address: int) -> bytes:
        """Return the map's 128 bytes.

        Args:
            address: Where kernels see the array.
        """
        kind, sizes, strides = self._facts()
        rank = len(sizes)
        if address % 16:
            raise InputError(f"a tensor map of an array at {address:#x}; expected a multiple of 16")
        im2col, box, steps = self._box()
        swizzle, nan = _SWIZZLES[self.swizzle], self.fill == "nan"
        head = struct.pack("<Q6B2x", address, rank - 1, _TYPES[kind][0], 0, swizzle, nan, im2col)
        room = [0] * (5 - rank)
        made = (
            head + struct.pack("<5I4x", *sizes[::-1], *room) + struct.pack("<4Q", *strides[-2::-1], *room[:4])
        )
        made += struct.pack("<10I", *box, *[0] * (5 - len(box)), *steps, *[1] * (5 - len(steps)))
        return made.ljust(MAP_BYTES, b"\0")

    def _box(self) -> tuple[bool, list[int], list[int]]:
        """Tell whether it is of im2col; return the words of the box and the steps, the innermost first."""
        return False, list(self.box)[::-1], [1, *self.steps[::-1]]
