"""The judge's own memory on a GPU, of which a worker sees its arguments, and the judge's hold on the device.

The memory is made here and mapped by the worker. The worker is stopped while the judge writes to it, and a kernel of
the judge's has the device until the clock starts: whatever thread of the candidate's waits for the inputs, they are not
there before.

Covers: inputs of timed calls read or computed with before the clock starts, by threads, by code that was changed in
place, by work that waits on the device (`_sentry`); inputs that another variant is given (each worker has memory of
its own); work left on the device at the reply.
Does not cover: copies that wait on the device for the inputs; the content of parameters, which a worker has before.
"""

import os
from dataclasses import dataclass

import torch
from torch import Tensor

from ..system.resources import Resource
from ._driver import Driver, DriverError
from ._sentry import Sentry

_MPS = 133
"""The driver's number of the attribute that says whether contexts share the device by MPS."""


class DeviceMemory(Resource):
    """Bytes on a GPU that the judge writes and one worker sees."""

    def __init__(self, driver: Driver, size_bytes: int) -> None:
        """Make them; raises `DriverError`."""
        driver.enter()
        self._driver = driver
        self._handle, self.size_bytes = driver.create(size_bytes)
        """Their number, a multiple of what the device needs."""
        self._address = driver.mapped(self._handle, self.size_bytes)
        self.descriptor = driver.exported(self._handle)
        """By which the worker finds them."""

    def write(self, content: Tensor) -> None:
        """Copy bytes of the host to the beginning, and wait: `content` is (bytes,) uint8, contiguous."""
        self._driver.enter()
        self._driver.write(self._address, content.data_ptr(), min(content.numel(), self.size_bytes))

    def close(self) -> None:
        """Let go of them; the worker's mapping holds them until it ends."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self._driver.enter()
            self._driver.unmapped(self._handle, self._address, self.size_bytes)


@dataclass(frozen=True)
class Holder:
    """What the judge has on one device; made by `open_holder`."""

    driver: Driver
    """The driver, in the judge's process."""
    sentry: Sentry
    """Holds the device while a worker is stopped."""

    def memory(self, size_bytes: int) -> DeviceMemory:
        """Make memory for one worker; raises `DriverError`."""
        return DeviceMemory(self.driver, size_bytes)


def open_holder(device: str) -> Holder:
    """Take hold of a device, `cuda` or `cuda:N`.

    Raises:
        DriverError: the driver is missing or refuses.
    """
    driver = Driver(torch.device(device).index or 0)
    if driver.attribute(_MPS):
        raise DriverError("the GPU is under MPS, where kernels of several processes run at once")
    sentry = Sentry(driver)
    sentry.look()  # what a first launch loads might wait for whatever runs on the device
    return Holder(driver, sentry)
