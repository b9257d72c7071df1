"""The CUDA side of a worker: inputs go to the device at bind, a call ends when every stream has ended.

What ends a call is taken before the candidate loads, and is the driver's own function as well as torch's: a candidate
that puts something else in place of `torch.cuda.synchronize` changes nothing.

Covers: work on side streams and of other threads in the same context (the whole device is synchronised inside
the timed request); lines that an earlier call made persist in L2; what a call writes into an argument or near its ends
(`Mirror`); memory that the judge lends, in which the inputs of timed calls appear (`Lent`).
Does not cover: what it writes elsewhere in the device's memory.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ._driver import Driver
from ._memory import mapped

_GUARD_BYTES = 4096
"""Bytes of the arena's pattern on both sides of an argument, as `_arena` leaves them."""

_BUSY_CYCLES = 20_000_000
"""Clock cycles for which a stream is kept busy: some ten milliseconds."""
_NO_CONTEXT = (3, 201)
"""The driver's answers where this thread has used no device yet, so that nothing runs: not initialised, no context."""


def is_gpu(device: str) -> bool:
    """Tell whether the device is a GPU.

    Example:
        >>> is_gpu("cuda:0"), is_gpu("cpu")
        (True, False)
    """
    return device.startswith("cuda")


@dataclass(frozen=True)
class Mirror:
    """Bytes of an arena and their copy on the device, with the guard bands around an argument."""

    arena: Tensor
    """As the judge sees them."""
    device: Tensor
    """As the kernel does; the argument begins after the first guard band."""

    @classmethod
    def of(cls, arena: Tensor, offset: int, nbytes: int, device: str) -> "Mirror":
        """Copy the bytes of a slot, and of the guard bands around it, to the device."""
        held = arena[offset - _GUARD_BYTES : offset + nbytes + _GUARD_BYTES]
        return cls(held, held.to(device, copy=True))

    @classmethod
    def within(cls, arena: Tensor, offset: int, nbytes: int, lent: "Lent") -> "Mirror":
        """Find the same bytes in memory that the judge lends and writes, where they have the arena's order."""
        first, last = offset - _GUARD_BYTES, offset + nbytes + _GUARD_BYTES
        return cls(arena[first:last], lent.part(first, last))

    def argument(self, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
        """Return the argument on the device."""
        flat = self.device[_GUARD_BYTES:-_GUARD_BYTES].view(dtype)
        return flat.as_strided(shape, strides)

    def push(self) -> None:
        """Take what the judge wrote since."""
        self.device.copy_(self.arena)


@contextlib.contextmanager
def late(mirrors: Sequence[Mirror], device: str) -> Iterator[Callable[[Sequence[Tensor]], list[Tensor]]]:
    """Keep the caller's stream busy; what the judge wrote is in the arguments only when the stream gets there.

    Yields what copies outputs in that stream: what a call did elsewhere, or does not wait for, is not in the copies.
    """
    if not is_gpu(device):
        yield lambda outputs: [t.clone() for t in outputs]
        return
    stream = torch.cuda.current_stream(device)
    new = [m.arena.to(device, copy=True) for m in mirrors]
    torch.cuda._sleep(_BUSY_CYCLES)  # type: ignore[no-untyped-call]
    for mirror, content in zip(mirrors, new, strict=True):
        mirror.device.copy_(content)

    def copied(outputs: Sequence[Tensor]) -> list[Tensor]:
        with torch.cuda.stream(stream):
            return [t.clone() for t in outputs]

    yield copied


def pull(mirrors: Sequence[Mirror]) -> None:
    """Write what calls changed on the device into the arena; neighbours share a guard band, so all are read first."""
    found = [m.device.cpu() for m in mirrors]
    changed = [torch.ne(now, m.arena) for now, m in zip(found, mirrors, strict=True)]
    for now, there, mirror in zip(found, changed, mirrors, strict=True):
        mirror.arena.copy_(torch.where(there, now, mirror.arena))


def open_context(device: str) -> None:
    """Start a GPU's driver in this process, so that its threads and open files are no candidate's; nothing on a CPU."""
    if is_gpu(device):
        torch.zeros(1, device=device).add_(1).cpu()


@dataclass(frozen=True)
class _Bytes:
    """Memory of a GPU at an address, in the form that torch takes without a copy."""

    address: int
    size_bytes: int

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": (self.size_bytes,), "typestr": "|u1", "data": (self.address, False), "version": 3,
            "strides": None,
        }  # fmt: skip


@dataclass(frozen=True)
class Lent:
    """Memory that the judge lends, for as long as this process lives; on a CPU it is a memory file."""

    whole: Tensor
    """All of it, (bytes,) uint8."""
    device: str

    @classmethod
    def of(cls, descriptor: int, size_bytes: int, device: str) -> "Lent":
        """Map it."""
        if not is_gpu(device):
            return cls(mapped(descriptor, size_bytes), device)
        driver = Driver(torch.device(device).index or 0)
        address = driver.mapped(driver.imported(descriptor), size_bytes)
        whole = torch.as_tensor(_Bytes(address, size_bytes), device=device)
        if whole.data_ptr() != address:
            raise RuntimeError("torch copied the memory that it was lent")
        return cls(whole, device)

    def part(self, first: int, last: int) -> Tensor:
        """Return bytes of it with a storage of their own, as arguments have elsewhere."""
        if not is_gpu(self.device):
            return torch.frombuffer(self.whole.numpy(), dtype=torch.uint8, count=last - first, offset=first)
        return torch.as_tensor(_Bytes(self.whole.data_ptr() + first, last - first), device=self.device)


class Fence:
    """What a worker does before and after the calls it is asked for; on a CPU nothing.

    Make it before the candidate's code runs.
    """

    def __init__(self, device: str) -> None:
        self._device, self._synchronise = device, torch.cuda.synchronize
        self._driver = _driver() if is_gpu(device) else None
        event = torch.cuda.Event
        self._event, self._record, self._ended, self._elapsed = (
            event, event.record, event.synchronize, event.elapsed_time,
        )  # fmt: skip
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
        self._ended(end)
        return 1e3 * self._elapsed(self._begin, end) if self._begin is not None else 0.0

    def _marked(self) -> torch.cuda.Event:
        event = self._event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._record(event)
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
