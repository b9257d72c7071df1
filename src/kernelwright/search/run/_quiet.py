"""Keeps builds and timings apart: builds go on while a candidate is verified, never while one is timed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Quiet:
    """Let builds run side by side, and a timing only while there are none.

    A timing that waits comes before builds that have not begun.

    Example:
        >>> quiet = Quiet()
        >>> with quiet.building(), quiet.building():
        ...     pass
        >>> with quiet.timing():
        ...     pass
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._builds = self._timings = 0

    @contextmanager
    def building(self) -> Iterator[None]:
        """Build once nothing is timed any more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._timings)
            self._builds += 1
        try:
            yield
        finally:
            with self._changed:
                self._builds -= 1
                self._changed.notify_all()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Time once the builds that have begun are done; no other begins meanwhile."""
        with self._changed:
            self._timings += 1
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._builds)
            yield
        finally:
            with self._changed:
                self._timings -= 1
                self._changed.notify_all()
