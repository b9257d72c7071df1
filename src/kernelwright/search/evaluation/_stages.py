"""Wall seconds of one judgement by stage, and its deadline."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stages:
    """Wall seconds by stage, and how many are left in total."""

    def __init__(self, deadline_s: float) -> None:
        self.seconds: dict[str, float] = {}
        self._end = time.monotonic() + deadline_s
        self._given_up = False

    @property
    def left_s(self) -> float:
        """Seconds to the deadline; negative once it has passed."""
        return self._end - time.monotonic()

    @property
    def over(self) -> bool:
        """Whether time is up, by the clock or because a wait timed out."""
        return self._given_up or self.left_s <= 0

    @over.setter
    def over(self, given_up: bool) -> None:
        self._given_up = self._given_up or given_up

    def within(self, limit_s: float) -> float:
        """Cap a stage's own limit at the time left; at least one second, so that it can report its result."""
        return max(1.0, min(limit_s, self.left_s))

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - begun
