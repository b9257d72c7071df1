"""The launch's global memory: arguments copied into an arena with red zones between them, and back."""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..errors import InputError
from ._ir import Function, Variable
from ._layout import FIXED, GLOBAL_BASE, RED_ZONE, THERE, WRITTEN, Layout, aligned
from ._tensormap import MAP_BYTES, TensorMap

_ALIGN = 512


@dataclass(frozen=True)
class Uninitialised:
    """An output whose contents the kernel must not read before it has written them.

    Example:
        >>> import numpy
        >>> Uninitialised(numpy.empty(4)).array.size
        4
    """

    array: Any
    """A numpy array or a torch tensor on the CPU."""
    written: Any = None
    """A shadow byte for each of its bytes, and more, kept from launch to launch; none where nothing was written."""


@dataclass(frozen=True)
class Region:
    """An allocation: some bytes of the caller's, and where they lie in the arena."""

    name: str
    host: int
    size: int
    offset: int
    writable: bool
    initialised: bool
    shadow: Any = None


@dataclass(frozen=True)
class Span:
    """Some of the caller's bytes that a kernel may touch."""

    name: str
    host: int
    size: int
    writable: bool = True
    initialised: bool = True
    shadow: Any = None
    """A shadow byte for each byte, kept from launch to launch; none where all are alike."""


def span_of(value: Any, name: str) -> Span | None:
    """Return the bytes of an array, a CPU tensor, an `Uninitialised` one or a map of one; None of anything else."""
    if isinstance(value, TensorMap):
        value = value.array
    initialised, written = not isinstance(value, Uninitialised), None
    if isinstance(value, Uninitialised):
        value, written = value.array, value.written
    if isinstance(value, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(value)
        return Span(name, low, high - low if value.size else 0, value.flags.writeable, initialised)
    if hasattr(value, "data_ptr"):
        if value.device.type != "cpu":
            raise InputError(f"{name} lies on {value.device}; the executor takes CPU tensors")
        reach = (
            sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True)) + 1
            if value.numel()
            else 0
        )
        size = reach * value.element_size()
        return Span(
            name, value.data_ptr(), size, True, initialised, None if written is None else written[:size]
        )
    return None


def _start(value: Any) -> int:
    if isinstance(value, Uninitialised):
        value = value.array
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    return int(value.data_ptr())


class Memory:
    """The arena of one launch.

    Covers: arguments that overlap (they are one allocation), views, read-only arrays.
    Does not cover: pointers within structures (give their arrays as arguments of their own).
    """

    def __init__(
        self, layout: Layout, spans: Sequence[Span], contents: tuple[bytes, bytes] | None = None
    ) -> None:
        """Copy the spans in.

        Args:
            layout: Of the module.
            spans: What the kernel may touch.
            contents: Of the module's own variables and their shadow, where an earlier launch left some.
        """
        self.regions: list[Region] = []
        self._own = contents or layout.image()
        self._variables = [(f"the variable {name}", at, size) for name, at, size in layout.variables()]
        image = self._own[0]
        self.own_bytes = len(image)
        at = aligned(len(image) + RED_ZONE, _ALIGN)
        for group in _overlapping(list(spans)):
            low, high = min(s.host for s in group), max(s.host + s.size for s in group)
            offset = at + low % 16 % max(_ALIGN, 1)
            name = " and ".join(dict.fromkeys(s.name for s in group))
            region = Region(
                name,
                low,
                high - low,
                offset,
                all(s.writable for s in group),
                all(s.initialised for s in group),
                group[0].shadow if len(group) == 1 else None,
            )
            self.regions.append(region)
            at = aligned(offset + region.size + RED_ZONE, _ALIGN)
        self.size = at
        self.parameters = b""
        self.fill()

    def fill(self) -> None:
        """Put in what a launch finds: zeros, the module's own variables, the caller's bytes."""
        self.data, self.shadow = np.zeros(self.size, np.uint8), np.zeros(self.size, np.uint8)
        for into, own in ((self.data, self._own[0]), (self.shadow, self._own[1])):
            into[: len(own)] = np.frombuffer(own, np.uint8)
        for region in self.regions:
            self._copy_in(region)

    @classmethod
    def of_arguments(cls, layout: Layout, function: Function, arguments: Sequence[Any]) -> Self:
        """Return the memory of a launch from Python: the arrays among the arguments, and the parameters' bytes."""
        names = [f"argument {n}" for n in range(len(arguments))]
        spans = [s for a, n in zip(arguments, names, strict=True) if (s := span_of(a, n)) is not None]
        memory = cls(layout, spans)
        memory.parameters = memory._pack(function, arguments, names)
        return memory

    def translated(self, raw: bytes) -> bytes:
        """Return bytes in which every aligned word that points into a region is the address that a kernel sees."""
        words = bytearray(raw)
        for at in range(0, len(words) - 7, 8):
            (word,) = struct.unpack_from("<Q", words, at)
            region = self._region_of(word)
            if region is not None:
                struct.pack_into("<Q", words, at, GLOBAL_BASE + region.offset + word - region.host)
        return bytes(words)

    def _region_of(self, host: int) -> Region | None:
        """Return the region that holds a byte, or else the one that ends there."""
        held = (r for r in self.regions if r.host <= host < r.host + max(r.size, 1))
        return next(held, next((r for r in self.regions if r.host + r.size == host), None))

    def _copy_in(self, region: Region) -> None:
        place = slice(region.offset, region.offset + region.size)
        if region.initialised or region.shadow is not None:
            ctypes.memmove(self.data.ctypes.data + region.offset, region.host, region.size)
        else:
            self.data[place] = 0xFF
        written = (WRITTEN if region.initialised else 0) if region.shadow is None else region.shadow
        self.shadow[place] = THERE | written | (0 if region.writable else FIXED)

    def copy_out(self) -> None:
        """Put the bytes that the kernel wrote back to the caller's arrays."""
        for region in self.regions:
            if region.writable and region.size:
                ctypes.memmove(region.host, self.data.ctypes.data + region.offset, region.size)
                if region.shadow is not None:
                    region.shadow[:] = self.shadow[region.offset : region.offset + region.size] & WRITTEN

    def own_contents(self) -> tuple[bytes, bytes]:
        """Return the module's own variables and their shadow, as they are now."""
        return self.data[: self.own_bytes].tobytes(), self.shadow[: self.own_bytes].tobytes()

    def address(self, value: Any) -> int:
        """Return the address at which a kernel sees an array."""
        host = _start(value)
        for region in self.regions:
            if region.host <= host < region.host + max(region.size, 1):
                return GLOBAL_BASE + region.offset + host - region.host
        raise InputError("this array is no argument of the launch")

    def describe(self, address: int, size: int) -> str:
        """Say where an address lies, seen from the nearest argument or variable of the module."""
        offset = address - GLOBAL_BASE
        places = [(r.name, r.offset, r.size) for r in self.regions] + self._variables
        if not 0 <= offset < self.size or not places:
            return "in no allocation"
        name, start, length = min(places, key=lambda p: max(p[1] - offset, offset - p[1] - p[2] + 1, 0))
        inside = offset - start
        if inside + size > length and inside >= 0:
            return f"{inside + size - length} bytes past the end of {name} ({length} bytes)"
        if inside < 0:
            return f"{-inside} bytes before {name}"
        return f"byte {inside} of {name} ({length} bytes)"

    def _pack(self, function: Function, arguments: Sequence[Any], names: Sequence[str]) -> bytes:
        if len(arguments) != len(function.parameters):
            raise InputError(
                f"{function.name!r} takes {len(function.parameters)} arguments "
                f"({', '.join(f'.{p.type}' for p in function.parameters)}); {len(arguments)} were given"
            )
        packed = bytearray()
        for value, parameter, name in zip(arguments, function.parameters, names, strict=True):
            packed += bytes(aligned(len(packed), parameter.align) - len(packed))
            if isinstance(value, TensorMap):
                if parameter.size != MAP_BYTES:
                    raise InputError(f"{name} is a tensor map; the kernel takes {parameter.size} bytes there")
                packed += value.encoded(self.address(value.array))
            elif isinstance(value, Uninitialised | np.ndarray) or hasattr(value, "data_ptr"):
                if parameter.size != 8:
                    raise InputError(f"{name} is an array; the kernel takes {parameter.size} bytes there")
                packed += struct.pack("<Q", self.address(value))
            else:
                packed += _scalar(value, parameter, name)
        return bytes(packed)


def _overlapping(spans: list[Span]) -> list[list[Span]]:
    """Group spans that share bytes."""
    groups: list[list[Span]] = []
    end = -1
    for span in sorted(spans, key=lambda s: (s.host, -s.size)):
        same = bool(groups) and (span.host, span.size) == (groups[-1][0].host, groups[-1][0].size)
        if same or (groups and span.host < end):
            groups[-1].append(span)
        else:
            groups.append([span])
        end = max(end, span.host + span.size)
    return groups


def _scalar(value: Any, parameter: Variable, name: str) -> bytes:
    size = parameter.size
    try:
        if value is None:
            return bytes(size)
        if isinstance(value, bytes | bytearray | np.generic):
            raw = value.tobytes() if isinstance(value, np.generic) else bytes(value)
            if len(raw) == size:
                return raw
            if isinstance(value, bytes | bytearray):
                raise InputError(f"{name} has {len(raw)} bytes; the kernel takes {size}")
            value = value.item()
        wants_real = parameter.type in {"f32", "f64"}
        if isinstance(value, float) or (wants_real and isinstance(value, int)):
            if size in {4, 8}:
                return struct.pack("<f" if size == 4 else "<d", value)
            raise InputError(f"{name} is a float; the kernel takes {size} bytes: give a numpy scalar")
        return (int(value) & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {value!r}; expected an array, a number or bytes") from None
