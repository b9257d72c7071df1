"""The CUDA side of a worker: inputs go to the device at bind, a call ends when every stream has ended.

What ends a call is taken before the candidate loads, and is the driver's own function as well as torch's: a candidate
that puts something else in place of `torch.cuda.synchronize` changes nothing.

Covers: work on side streams and of other threads in the same context (the whole device is synchronised inside
the timed request); lines that an earlier call made persist in L2.
Does not cover: in-place changes of device copies of inputs, which the arena does not see.
"""

import ctypes

import torch
from torch import Tensor

_NO_CONTEXT = (3, 201)
"""The driver's answers where this thread has used no device yet, so that nothing runs: not initialised, no context."""


def is_gpu(device: str) -> bool:
    """Tell whether the device is a GPU.

    Example:
        >>> is_gpu("cuda:0"), is_gpu("cpu")
        (True, False)
    """
    return device.startswith("cuda")


def to_device(flat: Tensor, device: str) -> Tensor:
    """Return the tensor on the device: itself on a CPU, a fresh copy of its bytes on a GPU."""
    return flat.to(device, copy=True) if is_gpu(device) else flat


class Fence:
    """What a worker does before and after the calls it is asked for; on a CPU nothing.

    Make it before the candidate's code runs.
    """

    def __init__(self, device: str) -> None:
        self._device, self._synchronise = device, torch.cuda.synchronize
        self._driver = _driver() if is_gpu(device) else None
        self._event = torch.cuda.Event
        self._begin: torch.cuda.Event | None = None

    def clear(self) -> None:
        """Let no line of L2 persist, whatever earlier calls asked for."""
        if self._driver is not None:
            _check(self._driver.cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache")

    def begin(self) -> None:
        """Start the device's own clock; nothing runs there now."""
        if is_gpu(self._device):
            self._begin = self._marked()

    def wait(self) -> float:
        """Wait until nothing runs on the device; return the microseconds since `begin` by its clock, 0 on a CPU."""
        if not is_gpu(self._device):
            return 0.0
        self._synchronise(self._device)
        if self._driver is not None:
            _check(self._driver.cuCtxSynchronize(), "cuCtxSynchronize")
        end = self._marked()
        end.synchronize()
        return 1e3 * self._begin.elapsed_time(end) if self._begin is not None else 0.0

    def _marked(self) -> torch.cuda.Event:
        event = self._event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def _driver() -> ctypes.CDLL | None:
    """Open NVIDIA's driver; none where torch's GPU is another's."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _check(code: int, function: str) -> None:
    if code != 0 and code not in _NO_CONTEXT:
        raise RuntimeError(f"{function} answered {code}")
