"""Self times of operators, by timing each one that torch dispatches."""

import time
from collections.abc import Callable
from typing import Any

from ..system.dispatch_mode import DispatchMode


class _Clock(DispatchMode):
    """Sums each operator's time, synchronising the device before and after."""

    def __init__(self, wait: Callable[[], None]) -> None:
        super().__init__()
        self._wait = wait
        self.spent_us: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._wait()
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self._wait()
        name = str(func._schema.name)
        self.spent_us[name] = self.spent_us.get(name, 0.0) + (time.perf_counter() - start) * 1e6
        self.calls[name] = self.calls.get(name, 0) + 1
        return result


def operator_times(
    call: Callable[[], None], wait: Callable[[], None], rounds: int
) -> list[tuple[str, float, float]]:
    """Return name, calls and self time in microseconds of each operator in one call, averaged over several.

    Operators are those that reach a device's kernels: a composite one appears as its parts.
    """
    with _Clock(wait) as clock:
        for _ in range(rounds):
            call()
    return [(name, clock.calls[name] / rounds, us / rounds) for name, us in clock.spent_us.items()]
