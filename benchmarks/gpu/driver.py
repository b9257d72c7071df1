"""Launches kernels through the CUDA driver and nothing else: no torch, no toolkit.

Covers: code as cubin or PTX, arguments as bytes, tensor maps, clusters, cooperative grids; times by events.
Does not cover: streams, textures, more than one device.
"""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .launches import Recorded

_SHARED, _ANY_CLUSTER = 8, 14
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED."""
_COOPERATIVE, _CLUSTER = 2, 4
"""CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""
MAP_BYTES = 128
_TYPES = {9: 8, 10: 9}
"""`CUtensorMapDataType` of the numbers that `tensormap.replace` has for types, where the two differ."""


class DriverError(Exception):
    """What the driver said of a call; the context may be lost."""


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16)]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint32),
    ]  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """A launch whose memory lies on the device, ready to go."""

    function: int
    record: Recorded
    parameters: Any
    bases: tuple[int, ...]
    allocations: tuple[int, ...]


class Driver:
    """The first device, and what was loaded on it."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        self._modules: dict[bytes, int] = {}
        self._call("cuInit", 0)
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *words: Any) -> None:
        code = getattr(self._lib, name)(*words)
        if code:
            text = ctypes.c_char_p()
            self._lib.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'?').decode()}")

    def name(self) -> str:
        """Return the device's name."""
        text = ctypes.create_string_buffer(100)
        self._call("cuDeviceGetName", text, 100, self._device)
        return text.value.decode()

    def place(self, record: Recorded, *, copy_uninitialised: bool = True) -> Placed:
        """Load a launch's code and copy its memory in, each allocation by itself."""
        function = self._function(record)
        bases, allocations = [], []
        for region in record.regions:
            shift = region.address % 16
            base = self._allocated(region.size + shift)
            allocations.append(base)
            bases.append(base + shift)
            if region.size and (region.initialised or copy_uninitialised):
                size = ctypes.c_size_t(region.size)
                self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(base + shift), region.before, size)
        parameters = self._parameters(record, bases)
        return Placed(function, record, parameters, tuple(bases), tuple(allocations))

    def _allocated(self, size: int) -> int:
        base = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(base), ctypes.c_size_t(max(size, 16)))
        return base.value

    def _function(self, record: Recorded) -> int:
        image = record.image or record.ptx.encode() + b"\0"
        if image not in self._modules:
            module = ctypes.c_void_p()
            self._call("cuModuleLoadData", ctypes.byref(module), image)
            self._modules[image] = module.value or 0
        function = ctypes.c_void_p()
        self._call(
            "cuModuleGetFunction",
            ctypes.byref(function),
            ctypes.c_void_p(self._modules[image]),
            record.kernel.encode(),
        )
        if record.shared_bytes > 48 << 10:
            self._call("cuFuncSetAttribute", function, _SHARED, record.shared_bytes)
        if _product(record.cluster) > 8:
            self._call("cuFuncSetAttribute", function, _ANY_CLUSTER, 1)
        return function.value or 0

    def _parameters(self, record: Recorded, bases: Sequence[int]) -> Any:
        """Return the parameters with the device's addresses; what is 128 bytes long is a tensor map."""
        raw = bytearray(record.parameters)

        def there(address: int) -> int:
            for base, region in zip(bases, record.regions, strict=True):
                if region.address <= address < region.address + max(region.size, 1):
                    return base + address - region.address
            return address

        for at, size in record.places:
            if size == MAP_BYTES:
                raw[at : at + size] = self._map(bytes(raw[at : at + size]), there)
            else:
                for word in range(at + -at % 8, at + size - 7, 8):
                    (address,) = struct.unpack_from("<Q", raw, word)
                    struct.pack_into("<Q", raw, word, there(address))
        buffers = [(ctypes.c_char * size).from_buffer_copy(raw, at) for at, size in record.places]
        pointers = (ctypes.c_void_p * max(len(buffers), 1))(*map(ctypes.addressof, buffers))
        pointers.kept = buffers  # type: ignore[attr-defined]
        return pointers

    def _map(self, own: bytes, there: Any) -> bytes:
        """Encode the executor's own form of a tensor map as the device's."""
        address, rank, kind, layout, swizzle, nan, columns = struct.unpack_from("<Q6B", own)
        rank += 1
        sizes = struct.unpack_from("<5I", own, 16)[:rank]
        strides = struct.unpack_from("<4Q", own, 40)[: rank - 1]
        words = struct.unpack_from("<10I", own, 72)
        made = ctypes.create_string_buffer(MAP_BYTES + 64)
        start = ctypes.addressof(made) + -ctypes.addressof(made) % 64
        head = [ctypes.c_void_p(start), _TYPES.get(kind, kind), rank, ctypes.c_void_p(there(address)),
                (ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * max(rank - 1, 1))(*strides)]  # fmt: skip
        tail = [layout, swizzle, 0, nan]
        if columns:
            channels, pixels, *corners = words[:rank]
            lows = [_signed(c & 0xFFFF) for c in corners]
            highs = [_signed(c >> 16) for c in corners]
            steps = (ctypes.c_uint32 * rank)(*words[5 : 5 + rank - 1], 1)
            self._call("cuTensorMapEncodeIm2col", *head, (ctypes.c_int * len(lows))(*lows),
                       (ctypes.c_int * len(highs))(*highs), channels, pixels, steps, *tail)  # fmt: skip
        else:
            box, steps = (ctypes.c_uint32 * rank)(*words[:rank]), (ctypes.c_uint32 * rank)(*[1] * rank)
            self._call("cuTensorMapEncodeTiled", *head, box, steps, *tail)
        return ctypes.string_at(start, MAP_BYTES)

    def start(self, placed: Placed) -> None:
        """Launch; the caller waits."""
        record, attributes = placed.record, []
        if _product(record.cluster) > 1 and ".reqnctapercluster" not in record.ptx:
            attributes.append(_Attribute(_CLUSTER, 0, (ctypes.c_uint32 * 16)(*record.cluster)))
        if "%envreg" in record.ptx:
            attributes.append(_Attribute(_COOPERATIVE, 0, (ctypes.c_uint32 * 16)(1)))
        kept = (_Attribute * max(len(attributes), 1))(*attributes)
        launch = _Launch((ctypes.c_uint32 * 3)(*record.grid), (ctypes.c_uint32 * 3)(*record.block), record.shared_bytes,
                         None, kept, len(attributes))  # fmt: skip
        self._call(
            "cuLaunchKernelEx",
            ctypes.byref(launch),
            ctypes.c_void_p(placed.function),
            placed.parameters,
            None,
        )

    def wait(self) -> None:
        """Wait for all that was launched."""
        self._call("cuCtxSynchronize")

    def results(self, placed: Placed) -> list[bytes]:
        """Return what lies in each region."""
        return [self.result(placed, n) for n in range(len(placed.bases))]

    def result(self, placed: Placed, number: int) -> bytes:
        """Return what lies in one region."""
        size = placed.record.regions[number].size
        into = ctypes.create_string_buffer(max(size, 1))
        if size:
            self._call("cuMemcpyDtoH_v2", into, ctypes.c_uint64(placed.bases[number]), ctypes.c_size_t(size))
        return into.raw[:size]

    def events(self, count: int) -> list[ctypes.c_void_p]:
        """Return marks that are put between launches."""
        made = [ctypes.c_void_p() for _ in range(count)]
        for event in made:
            self._call("cuEventCreate", ctypes.byref(event), 0)
        return made

    def mark(self, event: ctypes.c_void_p) -> None:
        """Put a mark behind what was launched."""
        self._call("cuEventRecord", event, None)

    def between_us(self, first: ctypes.c_void_p, last: ctypes.c_void_p) -> float:
        """Wait for the second mark and return the time since the first."""
        self._call("cuEventSynchronize", last)
        found = ctypes.c_float()
        self._call("cuEventElapsedTime_v2", ctypes.byref(found), first, last)
        return found.value * 1e3

    def free(self, placed: Placed) -> None:
        """Give the memory back."""
        for base in placed.allocations:
            self._call("cuMemFree_v2", ctypes.c_uint64(base))


def _product(dims: Sequence[int]) -> int:
    x, y, z = (*dims, 1, 1)[:3]
    return x * y * z


def _signed(word: int) -> int:
    return word - 0x10000 if word & 0x8000 else word
