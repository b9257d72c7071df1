"""Console output of a running run: JSON lines, plain lines, or a live progress bar."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from ..errors import StoreError
from ..records import Bound, Budget
from ._common import Common, program, speedup_text, time_text

if TYPE_CHECKING:
    from ..search import Event, Result, Standing


@contextmanager
def reporting(common: Common, budget: Budget, *, resumes: bool = True) -> "Iterator[Callable[[Event], None]]":
    """Yield the event handler; if a run that `resumes` is cut short, print how to continue."""
    run = ""

    def following(show: "Callable[[Event], None]") -> "Callable[[Event], None]":
        def follow(event: "Event") -> None:
            nonlocal run
            run = event.run
            show(event)

        return follow

    try:
        if common.json:
            yield following(lambda event: print(event.line(), flush=True))
        elif sys.stderr.isatty():
            with _Live(budget) as live:
                yield following(live.show)
        else:
            yield following(_print_plainly)
    except (KeyboardInterrupt, StoreError, OSError):
        if run and resumes:
            print(f"to go on where it stopped: {program()} resume {run}{common.again}", file=sys.stderr)
        raise


def _print_plainly(event: "Event") -> None:
    print(f"[{event.elapsed_s:7.1f} s] {describe(event)}", file=sys.stderr, flush=True)


def describe(event: "Event") -> str:
    """Format an event as one plain line."""
    data: dict[str, Any] = event.data
    match event.event:
        case "run":
            where = ", ".join((data["device"], *data["languages"]))
            return f"run {event.run}: {data['task']} on {where}"
        case "profile":
            top = ", ".join(f"{o['name']} {o['share']:.0%}" for o in data["operators"][:3])
            return f"profile {time_text(data['time_us'])} eager on {data['workload']}: {top}"
        case "captured":
            return "captured: " + ", ".join(
                f"{n} operations on {name}" for name, n in data["operations"].items()
            )
        case "bound":
            return "bound " + ", ".join(bound_text(Bound.model_validate(b)) for b in data["bounds"])
        case "evaluation":
            return _evaluation_text(data)
        case "standing":
            from ..search import Standing

            rows = [standing_text(Standing.model_validate(row)) for row in data["workloads"]]
            return "; ".join(rows) or "nothing was timed"
        case "spent":
            stages = sorted(data["stages_s"].items(), key=lambda stage: -stage[1])
            return "time went to " + (", ".join(f"{name} {s:.1f} s" for name, s in stages) or "nothing")
        case "edit":
            came = f"{data['kept']} new of {data['brought']}" if data["brought"] else "no candidate"
            return f"edit {data['number']}: {data['operator']}, {data['failure'] or came}"
        case "verified":
            return f"first correct kernel: {data['candidate']} in {data['language']}; not timed yet"
        case "prescreen":
            against = f"against {data['baseline']} alone"
            return f"first look: {data['candidate']}, {speedup_text(data['speedup'])} {against}"
        case "baselines":
            return f"starting what must be beaten: {', '.join(data['names'])}"
        case "isolation":
            return f"isolation: {', '.join(data['layers'])}"
        case "accept":
            place = f"{data['rank']} of {data['of']}"
            return f"accepting {data['candidate']} ({place}), {speedup_text(data['speedup'])} so far"
        case "accepted" | "not-accepted":
            return f"{event.event}: {data['candidate']}, {data['decision']}: {data['reason']}"
        case "serves":
            served = [f"{kernel} serves {name}" for name, kernel in data["kernels"].items()]
            return "; ".join([*served, *(f"the native op stays on {name}" for name in data["native"])])
        case "hints":
            taught = len({(one["template"], one["language"]) for one in data["hints"]})
            return (
                f"earlier runs say where to begin with {taught} templates"
                if taught
                else "earlier runs say nothing of where to begin"
            )
        case "explored":
            return f"candidates explored: {data['evaluations']}; stopped by {data['stopped_by']}"
        case _:
            words = data.get("message") or ", ".join(f"{name} {value}" for name, value in data.items())
            return f"{event.event}: {words}"


def result_text(result: "Result", again: str = "") -> str:
    """Format a result for people: the outcome, the kernel's folder, and what to do next."""
    lines = [f"{result.task}: {_headline(result)}"]
    if result.reason:
        lines.append(f"  why     {result.reason}")
    if result.caveat and result.caveat not in result.reason:
        lines.append(f"  note    {result.caveat}")
    if result.time_us:
        share = f" of {time_text(result.bound_us)}" if result.bound_us else ""
        reached = f", {result.fraction_of_bound:.0%} of the bound{share}" if result.fraction_of_bound else ""
        lines.append(f"  time    {time_text(result.time_us)}{reached}")
    lines += [f"  model   on {made.workload}, {made}" for made in result.modelled]
    if result.start_up:
        lines.append(f"  start   first answer after {result.start_up}")
    lines.append(
        f"  tried   {result.evaluations} evaluated, {result.cached} known already, {failures_text(result.failures)}"
    )
    if result.usd:
        lines.append(f"  spent   {result.usd:.4f} USD on models")
    if result.kernel:
        lines.append(f"  kernel  {result.kernel}")
        lines.append(f"  next    {program()} export {result.run} --to DIR{again}   (a package to import)")
        lines.append(f"          {program()} report {result.run}{again}            (how it was decided)")
    elif result.executed:
        lines.append("  kernel  none: the native op stays until a device has timed it")
        lines.append(
            f"  next    {program()} bundle run:{result.run} --for sm_90 --to DIR{again}   (time it there)"
        )
    elif result.decision == "improved":
        lines.append("  kernel  accepted, but not packaged: the native op stays")
        lines.append(f"  next    {program()} report {result.run}{again}            (how it was decided)")
    else:
        lines.append("  kernel  none: the native op stays")
        more = "more --minutes"
        if not result.evaluations:
            more += ", or with a model to propose: --model NAME (docs/llm.md)"
        lines.append(f"  next    {program()} report {result.run}{again}, or optimize again with {more}")
    return "\n".join(lines)


def _headline(result: "Result") -> str:
    against = f"{speedup_text(_limits(result))} against {result.baseline}"
    if result.kernel or result.decision == "improved":
        return f"improved, {against}"
    if result.executed:
        return f"executed, not timed; nothing is claimed of {result.executed}, the first by a modelled time"
    if result.speedup is None:
        return f"nothing better found ({result.decision})"
    return f"nothing better found; the best candidate is {result.decision}, {against}"


def bound_text(bound: Bound) -> str:
    """Format a bound with its binding resource."""
    return f"{time_text(bound.attainable_us)} by {bound.limit} on {bound.workload}"


def standing_text(standing: "Standing") -> str:
    """Format the standing of one workload.

    Example:
        >>> from kernelwright.search import Standing
        >>> standing_text(Standing(workload="n=4", kernel="k", time_us=20.0, baseline_us=40.0, bound_us=10.0))
        'n=4: 20 us by k, SOL score 0.75, 2.0 times the bound'
    """
    who = standing.kernel or "the native op"
    time = f"{standing.workload}: {time_text(standing.time_us)} by {who}"
    if not standing.bound_us:
        return f"{time}, no bound"
    return f"{time}, SOL score {standing.sol_score:.2f}, {standing.headroom:.1f} times the bound"


def failures_text(failures: dict[str, int]) -> str:
    """Format failures by kind.

    Example:
        >>> failures_text({"build-failed": 2})
        'failures: build-failed 2'
    """
    return (
        "failures: " + ", ".join(f"{kind} {n}" for kind, n in failures.items()) if failures else "no failures"
    )


def _limits(result: "Result") -> dict[str, float | None] | None:
    return result.speedup.model_dump() if result.speedup else None


def _evaluation_text(data: dict[str, Any]) -> str:
    name = data["template"] or data["candidate"]
    settings = [f"{key}={value}" for key, value in data["parameters"].items()]
    outcome = (
        "; ".join(data["modelled"]) or data["reason"]
        if data["speedup"] is None
        else f"{speedup_text(data['speedup'])} {data['decision']}"
    )
    known = ", known already" if data["cached"] else ""
    best = f"; best {speedup_text(data['best'])}" if data["best"] else ""
    eta = f"; {data['eta_s']:.0f} s left" if data["eta_s"] is not None else ""
    what = " ".join([data["language"], name, *settings])
    return f"{data['number']}: {what}: {outcome}{known}{best}{eta}"


class _Left(ProgressColumn):
    """Counts down the seconds left between events that update them."""

    def render(self, task: Task) -> Text:
        """Return the time left."""
        ends_s: float | None = task.fields["ends_s"]
        left_s = 0 if ends_s is None else max(0, round(ends_s - time.monotonic()))
        return Text(f"{left_s // 60}:{left_s % 60:02d} left" if ends_s is not None else "", style="cyan")


class _Live:
    """Live display of phase, budget used, best so far, failures and time left, below a line for each notable event."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._best = 0.0
        self._progress = Progress(
            SpinnerColumn(), TextColumn("[bold]{task.description}"), BarColumn(20), TextColumn("{task.fields[tally]}"),
            _Left(), console=Console(stderr=True, highlight=False),
        )  # fmt: skip
        self._bar: TaskID = self._progress.add_task("preparing", total=1.0, tally="", ends_s=None)

    def __enter__(self) -> "_Live":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.remove_task(self._bar)
        self._progress.stop()

    def show(self, event: "Event") -> None:
        """Show one event."""
        data: dict[str, Any] = event.data
        if event.event == "evaluation":
            self._count(event)
        elif event.event == "wait":
            self._progress.update(self._bar, description="waiting for the device")
        else:
            phase = _PHASES.get(event.event)
            if phase is not None:
                self._progress.update(self._bar, description=phase.format(**data))
            if event.event not in {"accept", "explored"}:
                self._say(event)

    def _say(self, event: "Event") -> None:
        self._progress.console.print(escape(describe(event)), soft_wrap=True)

    def _count(self, event: "Event") -> None:
        data: dict[str, Any] = event.data
        median = data["best"]["median"] if data["best"] else 0.0
        if median > self._best:
            self._best = median
            self._say(event)
        bound = f", {data['fraction_of_bound']:.0%} of bound" if data["fraction_of_bound"] else ""
        failed = f", [red]{sum(data['failures'].values())} failed[/red]" if data["failures"] else ""
        best = f"best [green]{median:.2f}x[/green]{bound}" if median else "nothing timed yet"
        self._progress.update(
            self._bar,
            description="exploring",
            completed=self._used(event.elapsed_s, data["evaluations"]),
            tally=f"{data['evaluations']} evaluated, {best}{failed}",
            ends_s=None if data["eta_s"] is None else time.monotonic() + data["eta_s"],
        )

    def _used(self, elapsed_s: float, evaluations: int) -> float:
        shares = [0.0]
        if self._budget.minutes:
            shares.append(elapsed_s / (self._budget.minutes * 60))
        if self._budget.evaluations:
            shares.append(evaluations / self._budget.evaluations)
        return min(max(shares), 1.0)


_PHASES = {
    "run": "profiling",
    "profile": "capturing",
    "captured": "bounding",
    "bound": "proposing",
    "hints": "proposing",
    "explored": "accepting",
    "accept": "accepting {rank} of {of}",
    "accepted": "packaging",
}
"""The phase shown in the bar after an event."""
