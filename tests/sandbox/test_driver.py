"""The driver by ctypes, against a library in its place whose memory is that of the host."""

import ctypes
import mmap
import os
from types import SimpleNamespace

import pytest
import torch

from kernelwright.sandbox import _driver, _holder
from kernelwright.sandbox._driver import Driver, DriverError
from kernelwright.sandbox._holder import DeviceMemory, open_holder

UNIT = 1 << 16


class Library:
    """What of `libcuda` is used: memory files for memory, mappings for addresses."""

    def __init__(self, **codes):
        self.codes, self.asked, self.files, self.mappings, self.launched = codes, [], {}, {}, []

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self._answered(name, arguments)

    def _answered(self, name, arguments):
        self.asked.append(name)
        if self.codes.get(name):
            return self.codes[name]
        answer = getattr(self, f"_{name[2:].removesuffix('_v2')}", None)
        if answer is not None:
            answer(*arguments)
        return 0

    def _DeviceGetAttribute(self, value, which, device):
        value._obj.value = which == self.codes.get("attribute")

    def _MemGetAllocationGranularity(self, unit, wanted, flags):
        given = wanted._obj
        assert (given.kind, given.handles, given.location.kind, given.location.device) == (1, 1, 1, 3)
        unit._obj.value = UNIT

    def _MemCreate(self, handle, size, wanted, flags):
        descriptor = os.memfd_create("device")
        os.ftruncate(descriptor, size.value)
        handle._obj.value = self._kept(descriptor)

    def _kept(self, descriptor):
        self.files[len(self.files) + 1] = descriptor
        return len(self.files)

    def _MemExportToShareableHandle(self, descriptor, handle, kind, flags):
        descriptor._obj.value = os.dup(self.files[handle.value])

    def _MemImportFromShareableHandle(self, handle, descriptor, kind):
        handle._obj.value = self._kept(os.dup(descriptor.value))

    def _MemAddressReserve(self, address, size, alignment, wanted, flags):
        assert size.value % UNIT == 0
        address._obj.value = 1

    def _MemMap(self, address, size, offset, handle, flags):
        held = mmap.mmap(self.files[handle.value], size.value)
        self.mappings[handle.value] = held, ctypes.addressof(ctypes.c_char.from_buffer(held))

    def _MemRelease(self, handle):
        os.close(self.files.pop(handle.value))

    def _MemcpyHtoDAsync(self, address, source, size, stream):
        held, _ = self.mappings[address.value]
        held[: size.value] = ctypes.string_at(source.value, size.value)

    def _IpcGetMemHandle(self, handle, address):
        handle._obj.content[0] = address.value

    def _IpcOpenMemHandle(self, address, handle, flags):
        assert flags == 1
        address._obj.value = 1000 + handle.content[0]

    def _MemcpyDtoHAsync(self, target, address, size, stream):
        ctypes.memset(target.value, address.value & 0xFF, size.value)

    def _LaunchKernel(self, kernel, *rest):
        sizes, (words, more) = rest[:6], rest[8:]
        assert sizes == (1,) * 6
        assert more is None
        self.launched.append([ctypes.cast(w, ctypes.POINTER(ctypes.c_uint64))[0] for w in words])


@pytest.fixture
def library(monkeypatch):
    def put(**codes):
        made = Library(**codes)
        monkeypatch.setattr(_driver.ctypes, "CDLL", lambda name: made)
        return made

    return put


def test_two_sides_see_the_same_memory(library):
    made = library()
    memory = DeviceMemory(Driver(3), 100)
    assert memory.size_bytes == UNIT
    theirs = Driver(3)
    handle = theirs.imported(memory.descriptor)
    theirs.mapped(handle, memory.size_bytes)
    memory.write(torch.arange(100, dtype=torch.uint8))
    held, _ = made.mappings[handle]
    assert held[:100] == bytes(range(100))


def test_memory_is_let_go_of_once(library):
    made = library()
    memory = DeviceMemory(Driver(3), 100)
    for _ in range(2):
        memory.close()
    assert made.files == {}
    assert [n for n in made.asked if n in {"cuMemUnmap", "cuMemAddressFree", "cuMemRelease"}] == [
        "cuMemUnmap", "cuMemAddressFree", "cuMemRelease",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"])
def test_what_the_driver_refuses_is_told(library, name):
    library(**{name: 999})
    with pytest.raises(DriverError, match=f"{name} answered 999"):
        Driver(0)


def test_no_driver_is_told(monkeypatch):
    monkeypatch.setattr(_driver, "_LIBRARY", "libnone.so.1")
    with pytest.raises(DriverError, match="no NVIDIA driver"):
        Driver(0)


def test_a_kernel_is_launched_with_words(library):
    made, driver = library(), Driver(0)
    driver.launch(driver.kernel("ptx", "hold"), driver.new_stream(), (7, 1 << 40, 20_000))
    assert made.launched == [[7, 1 << 40, 20_000]]


def test_under_mps_nothing_is_held(library):
    library(attribute=133)
    with pytest.raises(DriverError, match="MPS"):
        open_holder("cuda:0")


def test_a_device_without_it_is_held(library, monkeypatch):
    library()
    looked = []
    monkeypatch.setattr(_holder, "Sentry", lambda driver: SimpleNamespace(look=lambda: looked.append(driver)))
    assert looked == [open_holder("cuda:1").driver]


def test_another_s_allocation_is_opened_by_its_handle_and_read(library):
    made, driver = library(), Driver(0)
    address = driver.opened(driver.offered(7))
    assert address == 1007
    content = torch.zeros(4, dtype=torch.uint8)
    driver.read(address, content.data_ptr(), 4)
    assert content.tolist() == [1007 & 0xFF] * 4
    driver.closed(address)
    assert made.asked[-1] == "cuIpcCloseMemHandle"
