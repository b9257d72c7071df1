"""The kernel that a kernel-to-kernel task starts from: the first candidate, and what later ones must beat."""

from collections.abc import Iterator

from ..records import Candidate
from ._protocol import Request


class StartProposer:
    """Yields the task's own kernel where it has one in a language that was asked for.

    Covers: a correct start is never lost; it is verified and timed like any other candidate.
    Does not cover: changing it; that is for the proposers that come after.
    """

    name = "start"

    def propose(self, request: Request) -> Iterator[Candidate]:
        """Yield the start, if there is one."""
        start = request.problem.start()
        if start is not None and start.language in request.languages:
            yield start
