"""Space → the next configuration to try. One file an algorithm, found by name."""

from importlib.metadata import entry_points

from ...errors import NotFoundError, known_names
from ...records import Space
from ._protocol import Observation, Tuner

GROUP = "kernelwright.tuners"
DEFAULT_TUNER = "gp"


def make_tuner(name: str, space: Space, seed: int) -> Tuner:
    """Make the tuner of that name for a space.

    Raises:
        NotFoundError: no tuner is registered under the name.
        MissingToolError: the tuner needs a package that is not installed.
    """
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise NotFoundError(f"no tuner is called {name!r}; {known_names(name, found)}")
    tuner: Tuner = found[name].load()(space, seed)
    return tuner


def tuner_names() -> tuple[str, ...]:
    """Name every tuner that is registered."""
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


__all__ = ["DEFAULT_TUNER", "Observation", "Tuner", "make_tuner", "tuner_names"]
