"""Collects performance counters of a run's best candidates, if requested and available."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import BusyError
from ...profile import PROFILERS, Counting
from ...records import Build, Candidate, Counters
from ...tasks import Problem
from ..evaluation._evaluation import Observe
from ..run._run import Search

_LEAST_S = 5.0
"""Seconds of exploration that must be left for counting to pay off."""


@contextmanager
def observing(setting: Search, problem: Problem) -> Iterator[Observe | None]:
    """Yield a function that collects a candidate's counters, or None if not requested.

    By default counters are requested if a model or an agent will read them.
    """
    options = setting.run.options
    if not options.get("counters", bool(setting.names("models") or options.get("agent"))):
        yield None
        return
    if options.get("counters"):
        _report_missing(setting)

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


def _report_missing(setting: Search) -> None:
    """Report why nothing will be counted, if counters were requested but are unavailable."""
    found = {profiler.name: profiler.available(setting.device) for profiler in PROFILERS}
    if not any(tool.ok for tool in found.values()):
        reasons = "; ".join(f"{name}: {tool.what}, {tool.remedy}" for name, tool in found.items())
        setting.emit("counters", message=f"no profiler counts here: {reasons}")
