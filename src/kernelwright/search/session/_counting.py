"""Whether a run counts what its best candidates do, and by what."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import BusyError
from ...profile import PROFILERS, Counting
from ...records import Build, Candidate, Counters
from ...tasks import Problem
from ..evaluation._evaluation import Observe
from ..run._run import Search

_LEAST_S = 5.0
"""Seconds of exploring that must be left for counting to be worth its while."""


@contextmanager
def observing(setting: Search, problem: Problem) -> Iterator[Observe | None]:
    """Yield what counts a candidate, or none where nobody asked.

    By default it is asked for where there is somebody to read the figures: a model or an agent.
    """
    options = setting.run.options
    if not options.get("counters", bool(setting.names("models") or options.get("agent"))):
        yield None
        return
    if options.get("counters"):
        _say_what_is_missing(setting)

    def observe(candidate: Candidate, build: Build) -> tuple[Counters, ...]:
        left_s = setting.meter.left_to_explore_s()
        if left_s < _LEAST_S:
            return ()
        try:
            with setting.timing():
                found = counting(candidate, build, deadline_s=left_s)
        except BusyError:
            return ()
        for counters in found:
            setting.emit("counters", candidate=candidate.key, message=str(counters))
        return found

    with Counting(
        problem, setting.device, note=lambda message: setting.emit("counters", message=message)
    ) as counting:
        yield observe


def _say_what_is_missing(setting: Search) -> None:
    """Say why nothing will be counted, where that was asked for and cannot be had."""
    found = {profiler.name: profiler.available(setting.device) for profiler in PROFILERS}
    if not any(tool.ok for tool in found.values()):
        reasons = "; ".join(f"{name}: {tool.what}, {tool.remedy}" for name, tool in found.items())
        setting.emit("counters", message=f"no profiler counts here: {reasons}")
