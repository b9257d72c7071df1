"""What installed packages add to the house, by their entry points; what ships with it is registered the same way."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .errors import NotFoundError, known_names


@dataclass(frozen=True)
class Registry:
    """The extensions of one kind.

    Example:
        >>> "gp" in Registry("tuners", "tuner").names()
        True
    """

    group: str
    """What follows `kernelwright.` in the entry points' group."""
    kind: str
    """What one of them is called in messages."""

    def names(self) -> tuple[str, ...]:
        """Name all that are registered, in alphabetical order."""
        return tuple(sorted(self._points()))

    def load(self, name: str) -> Any:
        """Import what is registered under the name.

        Raises:
            NotFoundError: no installed package registers the name.
        """
        points = self._points()
        if name not in points:
            raise NotFoundError(f"no {self.kind} is called {name!r}; {known_names(name, points)}")
        return points[name].load()

    def _points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=f"kernelwright.{self.group}")}
