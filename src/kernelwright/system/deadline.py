"""Stops code in this process when its time is up, for example a user's reference that hangs.

Covers: Python code in the main thread, including sleeping and waiting, even if it catches `Exception`; torch's modes
that it was entering or leaving when it was stopped.
Does not cover: other threads, where nothing is stopped; a call into compiled code, which finishes first; other
processes, which have their own deadlines.
"""

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_LEAST_S = 1e-3


class _TimeUp(BaseException):
    """Not caught by `except Exception`."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Limit the block to so many seconds; an earlier outer deadline takes precedence.

    Raises:
        TimeoutError: time was up.

    Example:
        >>> with deadline(0.01):
        ...     while True:
        ...         pass
        Traceback (most recent call last):
        TimeoutError: time was up after 0.01 s
    """
    if math.isinf(seconds) or threading.current_thread() is not threading.main_thread():
        yield
        return
    began, (outer_s, _) = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    if 0 < outer_s <= seconds:
        yield
        return
    inside = True

    def stop(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if inside:  # an alarm that arrives while the block is exiting must not end the process
            raise _TimeUp

    before, depths = signal.signal(signal.SIGALRM, stop), _depths()
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, _LEAST_S))
            yield
        finally:
            inside = False
    except _TimeUp:
        _unwind(depths)
        raise TimeoutError(f"time was up after {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer_s:
            signal.setitimer(signal.ITIMER_REAL, max(outer_s - (time.monotonic() - began), _LEAST_S))


def _depths() -> tuple[int, int]:
    """Return how many of torch's modes are entered, of both kinds."""
    if "torch" not in sys.modules:
        return 0, 0
    inside: Any = sys.modules["torch"]._C
    return inside._len_torch_dispatch_stack(), inside._len_torch_function_stack()


def _unwind(depths: tuple[int, int]) -> None:
    """Leave the modes entered since: an alarm in a mode's own `__enter__` or `__exit__` leaves it entered."""
    dispatched, overridden = (now - then for now, then in zip(_depths(), depths, strict=True))
    inside: Any = sys.modules["torch"]._C if dispatched > 0 or overridden > 0 else None
    for _ in range(dispatched):
        inside._pop_torch_dispatch_stack(None)
    for _ in range(overridden):
        inside._pop_torch_function_stack()
