"""Contain exceptions of actions: each is reported once per action, and the search goes on without the step."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...errors import fault_of


@dataclass(frozen=True)
class Faults:
    """Isolates the search from an action's errors: in its sites, its result and the estimate of that.

    Covers: every `Exception`.
    Does not cover: timeouts and a full disk (`OSError`), which end more than an action.

    Example:
        >>> faults = Faults(print)
        >>> with faults.of("split"):
        ...     raise IndexError("no such axis")
        schedule: split failed and is left out there: IndexError: no such axis (<doctest ...>, line 2)
        >>> with faults.of("split"):
        ...     raise IndexError("told once")
    """

    say: Callable[[str], None]
    """Receives the first fault of each action, in one line."""
    told: set[str] = field(default_factory=set)
    """What failed so far."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Run the body as part of the named action; its exceptions end nothing else."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - one of dozens; its fault ends its step, not the search
            if name not in self.told:
                self.told.add(name)
                self.say(f"schedule: {name} failed and is left out there: {fault_of(error)}")


LOGGED = Faults(logging.getLogger(__name__).warning)
"""The default: logs each action's first fault in the process."""
