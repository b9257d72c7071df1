"""Finds extensions by the entry points of installed packages; built-in ones are registered the same way.

The packages are read once a process and `sys.path`: a verification asks several times, and they are hundreds of files.
"""

import functools
import sys
from collections.abc import Mapping
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

    def _points(self) -> Mapping[str, EntryPoint]:
        return _installed(f"kernelwright.{self.group}", tuple(sys.path))


@functools.lru_cache
def _installed(group: str, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    del path
    return {point.name: point for point in entry_points(group=group)}
