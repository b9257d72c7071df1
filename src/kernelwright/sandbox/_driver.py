"""NVIDIA's driver by ctypes: memory of a GPU that two processes share by a descriptor, copies, and one kernel.

Covers: what the judge's own context and a worker's side of the memory need; every call is checked.
Does not cover: other makes of GPUs; a context of one's own, as torch's is taken.
Source: CUDA Driver API, sections "Virtual Memory Management" and "Execution Control".
"""

import ctypes
from collections.abc import Sequence
from typing import Any

_PINNED, _DESCRIPTOR, _ON_DEVICE, _READ_WRITE, _NOT_BLOCKING = 1, 1, 1, 3, 1
_MAPPED_EVERYWHERE = 3
_HANDLE_BYTES, _LAZY_PEERS = 64, 1
_LIBRARY = "libcuda.so.1"
_U64, _SIZE, _POINTER = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p


class DriverError(Exception):
    """The driver refused something, or there is none; the message says which call."""


class _Location(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int)]


class _Properties(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int), ("handles", ctypes.c_int), ("location", _Location),
        ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8),
    ]  # fmt: skip


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class _Handle(ctypes.Structure):
    _fields_ = [("content", ctypes.c_ubyte * _HANDLE_BYTES)]


class Driver:
    """The driver's functions on one device, in the context that torch uses in this process."""

    def __init__(self, device: int) -> None:
        """Start it, or join what torch has started; raises `DriverError`."""
        try:
            self._library: Any = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise DriverError(f"no NVIDIA driver: {error}") from None
        number, self._context, self._number = ctypes.c_int(), _POINTER(), device
        self._ask("cuInit", 0)
        self._ask("cuDeviceGet", ctypes.byref(number), device)
        self._ask("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), number)
        self.enter()

    def enter(self) -> None:
        """Let the calling thread use the context."""
        self._ask("cuCtxSetCurrent", self._context)

    def attribute(self, which: int) -> int:
        """Return an attribute of the device by its number; 0 where this driver does not know it."""
        value = ctypes.c_int()
        known = self._library.cuDeviceGetAttribute(ctypes.byref(value), which, self._number) == 0
        return value.value if known else 0

    def create(self, size_bytes: int) -> tuple[int, int]:
        """Make memory that can be shared; return its handle and its size, a multiple of what the device needs."""
        wanted = _Properties(_PINNED, _DESCRIPTOR, _Location(_ON_DEVICE, self._number))
        unit, handle = _SIZE(), _U64()
        self._ask("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(wanted), 0)
        size = -(-size_bytes // unit.value) * unit.value
        self._ask("cuMemCreate", ctypes.byref(handle), _SIZE(size), ctypes.byref(wanted), _U64(0))
        return handle.value, size

    def exported(self, handle: int) -> int:
        """Return a descriptor by which another process finds the memory."""
        descriptor = ctypes.c_int(-1)
        self._ask(
            "cuMemExportToShareableHandle", ctypes.byref(descriptor), _U64(handle), _DESCRIPTOR, _U64(0)
        )
        return descriptor.value

    def imported(self, descriptor: int) -> int:
        """Return this process's handle of the memory behind a descriptor."""
        handle = _U64()
        self._ask("cuMemImportFromShareableHandle", ctypes.byref(handle), _POINTER(descriptor), _DESCRIPTOR)
        return handle.value

    def mapped(self, handle: int, size_bytes: int) -> int:
        """Give the memory an address in this process."""
        address, size = _U64(), _SIZE(size_bytes)
        self._ask("cuMemAddressReserve", ctypes.byref(address), size, _SIZE(0), _U64(0), _U64(0))
        self._ask("cuMemMap", address, size, _SIZE(0), _U64(handle), _U64(0))
        access = _Access(_Location(_ON_DEVICE, self._number), _READ_WRITE)
        self._ask("cuMemSetAccess", address, size, ctypes.byref(access), _SIZE(1))
        return address.value

    def unmapped(self, handle: int, address: int, size_bytes: int) -> None:
        """Take the address back and let go of the memory, which ends with the last handle."""
        self._ask("cuMemUnmap", _U64(address), _SIZE(size_bytes))
        self._ask("cuMemAddressFree", _U64(address), _SIZE(size_bytes))
        self._ask("cuMemRelease", _U64(handle))

    def write(self, address: int, source: int, size_bytes: int) -> None:
        """Copy from the host to the device, and wait."""
        stream = self.stream()
        self._ask("cuMemcpyHtoDAsync_v2", _U64(address), _POINTER(source), _SIZE(size_bytes), stream)
        self.wait(stream)

    def read(self, address: int, target: int, size_bytes: int) -> None:
        """Copy from the device to the host, and wait."""
        stream = self.stream()
        self._ask("cuMemcpyDtoHAsync_v2", _POINTER(target), _U64(address), _SIZE(size_bytes), stream)
        self.wait(stream)

    def offered(self, address: int) -> bytes:
        """Return the handle by which another process opens an allocation, of which this is the first address."""
        handle = _Handle()
        self._ask("cuIpcGetMemHandle", ctypes.byref(handle), _U64(address))
        return bytes(handle.content)

    def opened(self, handle: bytes) -> int:
        """Return the address at which this process sees another's allocation."""
        address, given = _U64(), _Handle((ctypes.c_ubyte * _HANDLE_BYTES).from_buffer_copy(handle))
        self._ask("cuIpcOpenMemHandle_v2", ctypes.byref(address), given, _LAZY_PEERS)
        return address.value

    def closed(self, address: int) -> None:
        """Let go of another's allocation."""
        self._ask("cuIpcCloseMemHandle", _U64(address))

    def host_memory(self, size_bytes: int) -> int:
        """Return the address of host memory that kernels reach by the same address; it stays."""
        address = _POINTER()
        self._ask("cuMemHostAlloc", ctypes.byref(address), _SIZE(size_bytes), _MAPPED_EVERYWHERE)
        return address.value or 0

    def stream(self) -> ctypes.c_void_p:
        """Return this object's stream of copies, which waits for no other."""
        if not hasattr(self, "_copies"):
            self._copies = self.new_stream()
        return self._copies

    def new_stream(self) -> ctypes.c_void_p:
        """Make a stream that waits for no other."""
        stream = _POINTER()
        self._ask("cuStreamCreate", ctypes.byref(stream), _NOT_BLOCKING)
        return stream

    def wait(self, stream: ctypes.c_void_p) -> None:
        """Wait until what was put on a stream has ended."""
        self._ask("cuStreamSynchronize", stream)

    def kernel(self, ptx: str, name: str) -> ctypes.c_void_p:
        """Compile a kernel from PTX."""
        module, function = _POINTER(), _POINTER()
        self._ask("cuModuleLoadData", ctypes.byref(module), ptx.encode() + b"\0")
        self._ask("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(self, kernel: ctypes.c_void_p, stream: ctypes.c_void_p, words: Sequence[int]) -> None:
        """Start a kernel of one thread whose parameters are words of 64 bits."""
        held = [_U64(word) for word in words]
        parameters = (_POINTER * len(held))(*(ctypes.cast(ctypes.byref(w), _POINTER) for w in held))
        self._ask("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)

    def _ask(self, function: str, *arguments: Any) -> None:
        code = getattr(self._library, function)(*arguments)
        if code != 0:
            raise DriverError(f"{function} answered {code}")
