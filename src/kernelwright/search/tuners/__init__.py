"""Space → the next configuration to try. One file per algorithm, found by name."""

from ...records import Space
from ...registry import Registry
from ._protocol import Observation, Tuner

DEFAULT_TUNER = "gp"
_TUNERS = Registry("tuners", "tuner")


def make_tuner(name: str, space: Space, seed: int) -> Tuner:
    """Make a tuner for a space by name.

    Raises:
        NotFoundError: no tuner is registered under the name.
        MissingToolError: the tuner needs a package that is not installed.
    """
    tuner: Tuner = _TUNERS.load(name)(space, seed)
    return tuner


def tuner_names() -> tuple[str, ...]:
    """Return the names of all registered tuners."""
    return _TUNERS.names()


__all__ = ["DEFAULT_TUNER", "Observation", "Tuner", "make_tuner", "tuner_names"]
