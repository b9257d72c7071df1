"""A kernel of the judge's that holds the GPU while a worker is stopped: whoever else gets the GPU meanwhile is seen.

Kernels of two processes never run at once on a GPU without a service that merges them (MPS): the device switches
between them. So the kernel reads the device's clock again and again; where two readings lie far apart, another had the
device in between, whatever its process was doing on the host.

Covers: kernels that wait on the device for the inputs, or never end; work left behind at the reply.
Does not cover: copies, which the device makes next to a kernel; GPUs under MPS, where nothing is seen; who it was.
Source: CUDA C++ Programming Guide, "Compute Preemption"; PTX ISA, "%globaltimer".
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass

from ._driver import Driver, DriverError

LEAST_GAP_NS = 20_000
"""Nanoseconds between two readings that the kernel itself never takes; reading the host's word takes one or two us."""
_TURN_S = 0.006
"""Seconds to go on after the inputs are written: a few turns, so that whatever waits for the device has had one."""
_LIMIT_NS, _LOOK_NS = 10_000_000_000, 3_000_000
_START_S = 5.0
_WORD_BYTES, _WORDS = 8, 8
_STOP, _STARTED, _LOST, _ELAPSED = 0, 1, 2, 3
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry hold(.param .u64 words, .param .u64 limit, .param .u64 least)
{
 .reg .pred far, told, early;
 .reg .b32 stop;
 .reg .b64 base, limit_ns, least_ns, start, last, now, gap, lost, ran, one;
 ld.param.u64 base, [words];
 ld.param.u64 limit_ns, [limit];
 ld.param.u64 least_ns, [least];
 cvta.to.global.u64 base, base;
 mov.u64 lost, 0;
 mov.u64 one, 1;
 mov.u64 start, %globaltimer;
 mov.u64 last, start;
 st.volatile.global.u64 [base+8], one;
 membar.sys;
AGAIN:
 mov.u64 now, %globaltimer;
 sub.u64 gap, now, last;
 mov.u64 last, now;
 setp.ge.u64 far, gap, least_ns;
 @far add.u64 lost, lost, gap;
 sub.u64 ran, now, start;
 ld.volatile.global.u32 stop, [base];
 setp.ne.u32 told, stop, 0;
 @told bra DONE;
 setp.lt.u64 early, ran, limit_ns;
 @early bra AGAIN;
DONE:
 st.volatile.global.u64 [base+16], lost;
 st.volatile.global.u64 [base+24], ran;
 membar.sys;
 ret;
}
"""
"""Words: stop (by the host), started, nanoseconds lost to others, nanoseconds from start to end."""


@dataclass(frozen=True)
class Seen:
    """What a hold on the device showed."""

    late_us: float
    """Microseconds from the launch until the kernel ran, by the host's clock."""
    lost_us: float
    """Microseconds in which something else had the device."""
    ran_us: float
    """Microseconds from its start to its end, by the device's clock."""
    whole: bool
    """Whether it ended because it was told to, or had looked for as long as it was to."""


class Sentry:
    """One such kernel on one device, started again and again."""

    def __init__(self, driver: Driver, clock: Callable[[], float] = time.perf_counter) -> None:
        self._driver, self._clock = driver, clock
        self._kernel, self._stream = driver.kernel(PTX, "hold"), driver.new_stream()
        address = driver.host_memory(_WORDS * _WORD_BYTES)
        self._address, self._words = address, (ctypes.c_uint64 * _WORDS).from_address(address)
        self._late_us = 0.0

    def begin(self, limit_ns: int = _LIMIT_NS) -> None:
        """Take the device; returns once the kernel runs there.

        Raises:
            DriverError: it does not come to run.
        """
        self._driver.enter()
        self._words[_STOP] = 1
        self._driver.wait(self._stream)  # one that was left to itself, after an error
        for i in range(_WORDS):
            self._words[i] = 0
        start = self._clock()
        self._driver.launch(self._kernel, self._stream, (self._address, limit_ns, LEAST_GAP_NS))
        while not self._words[_STARTED]:
            if self._clock() - start > _START_S:
                raise DriverError(f"the GPU let no kernel of the judge's run for {_START_S:.0f} s")
        self._late_us = 1e6 * (self._clock() - start)

    def hold(self) -> None:
        """Keep the device for as long as others need to have had a turn, had they anything to do."""
        time.sleep(_TURN_S)

    def release(self) -> None:
        """Tell the kernel to end, which takes it microseconds; not waited for."""
        self._words[_STOP] = 1

    def seen(self) -> Seen:
        """Wait until the kernel has ended, and say what it saw."""
        self._driver.enter()
        self._driver.wait(self._stream)
        ran_ns = self._words[_ELAPSED]
        return Seen(self._late_us, self._words[_LOST] / 1e3, ran_ns / 1e3, whole=ran_ns < _LIMIT_NS)

    def look(self) -> Seen:
        """Hold the device for a moment, and say what was seen."""
        self.begin(_LOOK_NS)
        return self.seen()
