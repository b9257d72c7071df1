"""What actions raise costs the step alone: it is told, once for each action, and the search goes on without it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...errors import fault_of


@dataclass(frozen=True)
class Faults:
    """Keeps apart what an action does from whoever tries it: where it is legal, what it leads to, what that costs.

    Covers: whatever is an `Exception`.
    Does not cover: time that is up, and a disk that is full (`OSError`): they end more than an action.

    Example:
        >>> faults = Faults(print)
        >>> with faults.of("split"):
        ...     raise IndexError("no such axis")
        schedule: split failed and is left out there: IndexError: no such axis (<doctest ...>, line 2)
        >>> with faults.of("split"):
        ...     raise IndexError("told once")
    """

    say: Callable[[str], None]
    """Told the first fault of each action, in one line."""
    told: set[str] = field(default_factory=set)
    """What failed so far."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Do what is inside as a part of what has the name, an action as a rule; what it raises ends nothing else."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - one of dozens; its fault ends its step, not the search
            if name not in self.told:
                self.told.add(name)
                self.say(f"schedule: {name} failed and is left out there: {fault_of(error)}")


LOGGED = Faults(logging.getLogger(__name__).warning)
"""Where nobody is there to be told: each action's first fault in the process."""
