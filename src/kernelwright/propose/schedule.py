"""Request → Templates: the compiler's schedules for the task, in every requested language."""

from collections.abc import Iterator

from ..compiler import Schedule, schedules
from ._protocol import Request

FIRST = "schedules"
"""The option that names schedules to try first: what somebody already timed."""


class ScheduleProposer:
    """Capture, lower and print: needs no model and no kernel library.

    Covers: what `compiler.schedules` covers.
    Does not cover: gradients that need an operator of torch; graphs that are native from end to end.
    """

    name = "schedule"

    def propose(self, request: Request) -> Iterator[Schedule]:
        """Yield schedules that print: those that the run's option names, in its order, then the others, best first."""
        named = request.options.get(FIRST, ())
        wanted = list(map(str, named)) if isinstance(named, tuple | list) else [str(named)]
        return _first(schedules(request.problem, request.languages, request.emit), wanted)


def _first(found: Iterator[Schedule], wanted: list[str]) -> Iterator[Schedule]:
    """Yield those of these names in the order of the names, then the others in their own."""
    seen: list[Schedule] = []
    for name in wanted:
        known = [one for one in seen if one.name == name]
        seen = [one for one in seen if one.name != name]
        while not known and (one := next(found, None)) is not None:
            (known if one.name == name else seen).append(one)
        yield from known
    yield from seen
    yield from found
