"""Finds extensions by the entry points of installed packages; built-in ones are registered the same way."""

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
    """Name of the entry points' group after `kernelwright.`."""
    kind: str
    """Name of one such extension in messages."""

    def names(self) -> tuple[str, ...]:
        """Return all registered names, in alphabetical order."""
        return tuple(sorted(self._points()))

    def load(self, name: str) -> Any:
        """Import the object registered under the name.

        Raises:
            NotFoundError: no installed package registers the name.
        """
        points = self._points()
        if name not in points:
            raise NotFoundError(f"no {self.kind} is called {name!r}; {known_names(name, points)}")
        return points[name].load()

    def _points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=f"kernelwright.{self.group}")}
