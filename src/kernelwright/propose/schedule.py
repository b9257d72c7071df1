"""Request → Templates: what the compiler makes of the task, in every language that was asked for."""

from collections.abc import Iterator

from ..compiler import Schedule, schedules
from ._protocol import Request


class ScheduleProposer:
    """Capture, lower and print: no model, no library of kernels.

    Covers: what `compiler.schedules` covers.
    Does not cover: gradients; graphs that are native from end to end.
    """

    name = "schedule"

    def propose(self, request: Request) -> Iterator[Schedule]:
        """Yield schedules that print, best first."""
        return schedules(request.problem, request.languages, request.emit)
