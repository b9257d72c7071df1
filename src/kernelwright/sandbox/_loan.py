"""What the judge lends one worker on a GPU: memory for the arguments of timed calls, written while it is stopped.

Covers: an order in which nothing of the inputs is on the device before the judge's kernel has it, and that kernel goes
on until the clock runs.
Does not cover: see `_holder` and `_sentry`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..system.resources import Resource
from ._arena import Arena
from ._connection import Connection
from ._driver import DriverError
from ._holder import DeviceMemory, Holder
from ._segments import Segments
from ._types import Held

_SPARE = 1.25
"""Times what an arena holds now, so that memory is not replaced for every set that is a little larger."""


class Loan(Resource):
    """One worker's memory of the judge's, by arena."""

    def __init__(self, holder: Holder, connection: Connection) -> None:
        self._holder, self._connection = holder, connection
        self._memories: dict[int, DeviceMemory] = {}
        self._bound: dict[int, Arena] = {}
        self._held: Held | None = None
        self.segments = Segments(holder.driver)
        """What of the worker's own memory on the device the judge can read."""

    def bind(self, arena: Arena, deadline_s: float) -> None:
        """Let the worker see on the device what the arena holds now; it must have mapped the arena."""
        with self._blaming():
            self.try_out(arena, deadline_s)

    def try_out(self, arena: Arena, deadline_s: float) -> None:
        """Do what `bind` does; a driver that refuses raises `DriverError` and ends no worker."""
        held, memory = arena.held.numel(), self._memories.get(arena.number)
        if memory is None or memory.size_bytes < held:
            memory = self._replaced(arena, int(_SPARE * held), deadline_s)
        memory.write(arena.held)
        self._bound[arena.number] = arena

    def fill(self) -> None:
        """Take the device, then write there what the arenas hold now; the worker must be stopped."""
        with self._blaming():
            self._holder.sentry.begin()
            for number, arena in self._bound.items():
                self._memories[number].write(arena.held)

    def hold(self) -> None:
        """Go on until whatever waits for the device has had a turn."""
        self._holder.sentry.hold()

    def start(self) -> None:
        """Leave the device to the worker, after the clock was read."""
        self._holder.sentry.release()

    def look(self) -> None:
        """Note what was seen since `fill`, and look for what goes on, at once after the worker was told to stop."""
        with self._blaming():
            before, after = self._holder.sentry.seen(), self._holder.sentry.look()
        taken_us = before.lost_us if before.whole else max(before.lost_us, before.ran_us)
        self._held = Held(taken_us, left_us=after.late_us + after.lost_us)

    def taken(self) -> Held | None:
        """Return what was seen of the latest calls."""
        held, self._held = self._held, None
        return held

    def release(self) -> None:
        """Forget what is bound; the memory is kept for the next sets."""
        self._bound.clear()

    def close(self) -> None:
        """Let go of the memory."""
        for memory in self._memories.values():
            with suppress(DriverError):  # of a device that failed: nothing is left to give back
                memory.close()
        self._memories.clear()
        self._bound.clear()
        self.segments.close()

    def _replaced(self, arena: Arena, size_bytes: int, deadline_s: float) -> DeviceMemory:
        memory = self._holder.memory(size_bytes)
        try:
            message = {"op": "lend", "arena": arena.number, "bytes": memory.size_bytes}
            self._connection.ask(message, deadline_s, (memory.descriptor,))
        except BaseException:
            memory.close()
            raise
        if arena.number in self._memories:
            self._memories[arena.number].close()
        self._memories[arena.number] = memory
        return memory

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        """Let what the driver refuses end the worker: its calls cannot be judged."""
        try:
            yield
        except DriverError as error:
            raise self._connection.reject(f"the judge's hold on the GPU failed: {error}") from None
