"""The tuner interface: ask and tell over the configurations of a space."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...records import Configuration


@dataclass(frozen=True)
class Observation:
    """The cost of a configuration on another shape, on another device or in another run."""

    configuration: Configuration
    """The configuration."""
    time_us: float | None
    """Microseconds there, comparable only with others from the same source. None if it failed."""


@runtime_checkable
class Tuner(Protocol):
    """Ask/tell over parameters. One file per tuner; `kernelwright.tuners` entry point.

    A tuner is made with `(space, seed)` and is deterministic given both and the calls it receives. It asks only
    for allowed configurations, never twice for the same one nor for one already reported, until the space is
    used up, failures or not. Several may be asked for before any is reported. Costs are microseconds, lower is
    better. `kernelwright.testing.TunerConformance` tests this contract.
    """

    def ask(self) -> Configuration | None:
        """Return the next configuration to try, or None when the space is used up."""
        ...

    def tell(self, configuration: Configuration, time_us: float | None) -> None:
        """Report a configuration's cost; None means that it failed to build, verify or run."""
        ...

    def warm_start(self, observations: Sequence[Observation]) -> None:
        """Take a hint from one other source, before the first `ask`.

        A hint is discounted: it suggests where to look first, does not replace an evaluation, and must do little
        harm if it misleads. Configurations outside the space are ignored.
        """
        ...
