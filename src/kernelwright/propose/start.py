"""Proposes the existing kernel of a kernel-to-kernel task: the first candidate, which later ones must beat."""

from collections.abc import Iterator

from ..records import Candidate
from ._protocol import Request


class StartProposer:
    """Yields the task's own kernel if it has one in a requested language.

    Covers: a correct start is never lost; it is verified and timed like any other candidate.
    Does not cover: changing it, which later proposers do.
    """

    name = "start"

    def propose(self, request: Request) -> Iterator[Candidate]:
        """Yield the existing kernel, if there is one."""
        start = request.problem.start()
        if start is not None and start.language in request.languages:
            yield start
