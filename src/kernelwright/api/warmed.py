"""Starts what workers are forked from before anything of torch is imported here, so that both import it at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..config import Settings
from ..sandbox import Zygotes

__all__ = ["warmed"]


@contextmanager
def warmed() -> Iterator[Zygotes]:
    """Yield what `judge` and `judging` fork workers from; enter it before `api.judge` is imported.

    Example:
        >>> with warmed() as zygotes:
        ...     len(zygotes.keys)
        1
    """
    with Zygotes(Settings.from_environment()) as zygotes:
        zygotes.begin()
        yield zygotes
