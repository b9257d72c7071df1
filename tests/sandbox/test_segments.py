"""Which bytes of a worker's allocations the judge reads, and when it lets go of them."""

import ctypes

import pytest
import torch

from kernelwright.sandbox._driver import DriverError
from kernelwright.sandbox._segments import Segments, segments


class Device:
    """A driver whose allocations are by their handles; some cannot be opened."""

    def __init__(self):
        self.held = {
            b"\x01": torch.arange(64, dtype=torch.uint8),
            b"\x02": torch.arange(100, 132, dtype=torch.uint8),
        }
        self.asked = []

    def enter(self):
        pass

    def opened(self, handle):
        if handle not in self.held:
            raise DriverError("cuIpcOpenMemHandle_v2 answered 1")
        self.asked.append(f"open {handle.hex()}")
        return self.held[handle].data_ptr()

    def read(self, address, target, size_bytes):
        ctypes.memmove(target, address, size_bytes)

    def closed(self, address):
        self.asked.append("close")


@pytest.fixture
def known():
    device = Device()
    made = Segments(device)
    made.learn([(5000, 32, "02"), (1000, 64, "01"), (9000, 10, "03")])
    return made, device


@pytest.mark.parametrize(
    ("address", "size", "first"),
    [
        (1000, 4, 0),
        (1060, 4, 60),
        (1061, 4, None),
        (999, 4, None),
        (5010, 2, 110),
        (3000, 1, None),
        (9000, 1, None),
    ],
)
def test_bytes_are_read_where_they_lie_in_one_allocation_that_can_be_opened(known, address, size, first):
    content = known[0].read(address, size)
    assert (None if content is None else content.tolist()) == (
        None if first is None else list(range(first, first + size))
    )


def test_an_allocation_is_opened_once_and_let_go_of_when_the_worker_has_it_no_more(known):
    made, device = known
    made.read(1000, 4)
    made.read(1004, 4)
    made.read(5000, 4)
    made.learn([(1000, 64, "01")])
    assert device.asked == ["open 01", "open 02", "close"]
    assert made.read(5000, 4) is None
    made.close()
    assert device.asked[-1] == "close"
    assert len(device.asked) == 4


def test_a_handle_that_is_none_is_not_read(known):
    known[0].learn([(1000, 64, "no handle")])
    assert known[0].read(1000, 4) is None


def test_the_worker_lists_what_torch_has_on_its_device(monkeypatch):
    held = [
        {"device": 0, "address": 5000, "total_size": 32},
        {"device": 0, "address": 1000, "total_size": 64},
        {"device": 0, "address": 7000, "total_size": 8},
        {"device": 1, "address": 100, "total_size": 64},
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: held)

    class Offering:
        def __init__(self, device):
            assert device == 0

        def offered(self, address):
            if address == 7000:
                raise DriverError("cuIpcGetMemHandle answered 1")
            return bytes([address // 1000])

    monkeypatch.setattr("kernelwright.sandbox._segments.Driver", Offering)
    assert segments("cuda") == [(1000, 64, "01"), (5000, 32, "05")]
