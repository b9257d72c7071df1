"""What a tuner must do: ask and tell over the configurations of a space."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...records import Configuration


@dataclass(frozen=True)
class Observation:
    """What a configuration cost on another shape, on another device or in another run."""

    configuration: Configuration
    """What was tried."""
    time_us: float | None
    """Microseconds there, to be compared with others from there only; none where it failed."""


@runtime_checkable
class Tuner(Protocol):
    """Ask/tell over parameters. One file a tuner; `kernelwright.tuners` entry point.

    A tuner is made with `(space, seed)` and is deterministic given both and what it is told. It asks only
    for allowed configurations, never twice for the same one nor for one that it was told of, until the
    space is used up, failures or not. Several may be asked for before any is told. Costs are
    microseconds, lower is better. `kernelwright.testing.TunerConformance` holds a tuner to this.
    """

    def ask(self) -> Configuration | None:
        """Return the next configuration to try, or none when the space is used up."""
        ...

    def tell(self, configuration: Configuration, time_us: float | None) -> None:
        """Report what a configuration cost; none means that it failed to build, verify or run."""
        ...

    def warm_start(self, observations: Sequence[Observation]) -> None:
        """Take a hint from one other source, before the first `ask`.

        A hint is discounted: it says where to look first, does not stand for an evaluation, and must not
        do much harm where it misleads. Configurations outside the space are ignored.
        """
        ...
