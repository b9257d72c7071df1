"""Starts what workers are forked from before anything of torch is imported here, so that both import it at once."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from ..config import Settings
from ..sandbox import Zygotes
from ..system.landlock import gpu_paths

__all__ = ["warmed"]


@contextmanager
def warmed(language: str = "", candidate: str = "") -> Iterator[Zygotes]:
    """Yield what `judge` and `judging` fork workers from; enter it before `api.judge` is imported.

    Args:
        language: That of the candidates, where it is known: for `cuda` the executor is built meanwhile, once.
        candidate: The first of them, where it is a file: its extensions are built meanwhile too.

    Example:
        >>> with warmed() as zygotes:
        ...     len(zygotes.keys)
        1
    """
    with Zygotes(Settings.from_environment()) as zygotes:
        executed = language == "cuda" and not gpu_paths()
        zygotes.begin_for(language if executed else "")  # no other is needed where nothing is timed
        with _building(candidate) if executed else nullcontext():
            yield zygotes


def _building(candidate: str) -> AbstractContextManager[None]:
    from ..executor.ahead import building

    return building(candidate)
