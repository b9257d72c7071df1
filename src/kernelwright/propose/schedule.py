"""Request → Templates: the compiler's schedules for the task, in every requested language."""

from collections.abc import Iterator

from ..compiler import Schedule, schedules
from ._protocol import Request


class ScheduleProposer:
    """Capture, lower and print: needs no model and no kernel library.

    Covers: what `compiler.schedules` covers.
    Does not cover: gradients that need an operator of torch; graphs that are native from end to end.
    """

    name = "schedule"

    def propose(self, request: Request) -> Iterator[Schedule]:
        """Yield schedules that print, best first."""
        return schedules(request.problem, request.languages, request.emit)
