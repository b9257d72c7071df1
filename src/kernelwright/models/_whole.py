"""Planned, minutes → the run of the model as one task: one program for all of it, tried before its regions."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import KernelwrightError, fault_of
from ..propose.schedule import FIRST
from ..records import DecisionStatus, Evaluation, RunStatus, Task
from ..search import accepted_of
from ..store import Store
from ._minutes import budget_of, whole_s
from ._over_eager import ratio_to_eager
from ._pilot import forecast_of, piloted
from ._plan import Planned
from ._plan_records import WHOLE
from ._records import RegionOutcome
from ._whole_task import WholeTask
from ._wrong_layer import wrong_layer
from .pieces import Unprintable

PROPOSERS = ("schedule",)
"""Who writes one program for a graph of any size."""
_PILOT_SHARE, _LEAST_S = 0.4, 90.0
"""Part of the seconds that the first programs may take to be timed, and how many it must be worth doing; it
builds what the search needs too."""
_AS_LONG = 0.6
"""Part of its seconds for trying programs that a search has at least, once the first programs were timed."""
_TOLD_ENDS = 2
"""How many ends of rejected programs are told."""


@dataclass(frozen=True)
class WholeFound:
    """What the search for one program of the whole model brought."""

    run: str = ""
    """Its run; empty where there was none."""
    best: Evaluation | None = None
    """The accepted program."""
    weights: tuple[str, ...] = ()
    """The model's parameters and buffers, in the order in which the program takes them."""
    reason: str = ""
    """Why there is none."""
    task: Task | None = None
    """The model as a task, where a program was accepted."""
    pilot: float | None = None
    """Part of eager torch's time that its first programs took before the search; none where none was timed."""
    late: bool = False
    """Whether a program was still undecided when the search ended."""
    timed: Evaluation | None = None
    """Of the programs that were timed and not accepted, the fastest."""

    def as_timed(self) -> dict[str, object]:
        """Return what a result says of a program that was timed and not accepted; nothing where there is none."""
        if self.timed is None:
            return {}
        found = self.timed.decision
        return {
            "run": self.run, "speedup": found.speedup, "baseline": found.baseline,
            "eager_speedup": ratio_to_eager(self.timed),
            "decision": DecisionStatus.INCONCLUSIVE if found.status in _OPEN else found.status,
        }  # fmt: skip

    def outcome(self, plan: Planned) -> RegionOutcome:
        """Return it as what came of a region."""
        found = self.best.decision if self.best else None
        row = plan.plan.whole
        return RegionOutcome(
            region=WHOLE, label="the whole model", uses=1, runs=(self.run,) if self.run else (),
            speedup=found.speedup.median if found and found.speedup else None, kept=self.best is not None,
            expected_us=row.gain.expected if row else 0.0, reason=self.reason,
        )  # fmt: skip


def search_whole(
    plan: Planned,
    key: str,
    search: Callable[..., Any],
    left_s: float,
    options: Mapping[str, Any],
    say: Callable[..., None],
) -> WholeFound:
    """Search one program for the whole model; an earlier search that found one or took as long is taken over.

    Args:
        plan: The model and its plan.
        key: Names the model and the device in the store.
        search: Searches one task; it tries first what was fastest among the first programs.
        left_s: Wall seconds of the run that are left. Programs are tried in three fifths of them; what is faster has
            all of them to be accepted in, unless its first programs are slower than eager torch.
        options: What else it takes.
        say: Tells what happens.
    """
    try:
        whole = plan.as_task()
    except (KernelwrightError, Unprintable) as error:
        return WholeFound(reason=f"the model cannot be judged as a whole: {error}")
    place, pilot, begun = options["store"], None, time.monotonic()
    with Store(place) as store:
        note_search(store, key, WHOLE, whole.task)
        finished = finished_runs(store, key, plan.plan.device, options).get(WHOLE, ())
        run = next((name for name in finished if _tells(store, name, whole_s(left_s))), "")
    if run:
        say("whole", message=f"the whole model: run {run} taken over")
    else:
        mine_s = whole_s(left_s)
        say("whole", message=f"the whole model as one program: searching for {mine_s:.0f} s")
        if mine_s >= _LEAST_S:
            pilot = piloted(whole.task, _PILOT_SHARE * mine_s)
        if pilot is not None:
            _, expected, _ = forecast_of(pilot.share)
            took = f"its first programs take {pilot.share:.0%} of eager's time"
            say("whole", message=f"{took}: {expected:.2f} times as fast is expected")
        spent_s, most_s = time.monotonic() - begun, left_s if pilot is None or pilot.share < 1.0 else mine_s
        budget = budget_of(mine_s - spent_s, most_s - spent_s)
        first = {FIRST: pilot.programs} if pilot is not None else {}
        try:
            run = search(
                whole.task, budget=budget, **{**options, "more": {**options.get("more", {}), **first}}
            ).run
        except KernelwrightError as error:
            return WholeFound(reason=str(error))
        except Exception as error:  # noqa: BLE001  the regions are searched all the same
            return WholeFound(reason=fault_of(error))
    return replace(_found(run, whole, plan, place), pilot=pilot.share if pilot is not None else None)


def _tells(store: Store, name: str, seconds: float) -> bool:
    """Tell whether a finished run says what one of so many seconds would: it has a program, or tried as long."""
    record = store.run(name)
    had, wanted = record.budget.search_minutes or 0.0, budget_of(seconds, seconds).search_minutes or 0.0
    return had >= _AS_LONG * wanted or bool(accepted_of(store, record))


_TASKS = "model-task"
"""Under which the store keeps the tasks of a model's regions."""
_OPEN = frozenset({DecisionStatus.INCONCLUSIVE, DecisionStatus.UNKNOWN})
"""Decisions on a program that more time may have settled."""
_OPTIONS = ("baselines", "proposers")
"""What a search is asked for that decides what it finds."""


def note_search(store: Store, key: str, region: str, task: Task) -> None:
    """Keep which task a region is searched as, before it is: a finished search is found whenever this one is killed."""
    origin = f"{key} {region}"
    store.keep(_TASKS, origin, {origin: json.dumps({"model": key, "region": region, "task": task.key})})


def finished_runs(store: Store, key: str, device: str, options: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the finished runs of a model in the store, by region, the oldest first.

    Args:
        store: The store.
        key: Names the model and the device in the store.
        device: Fingerprint of the device.
        options: What the search is asked for; runs that were asked for something else do not count.
    """
    notes = [note for note in map(json.loads, store.kept(_TASKS)) if note["model"] == key]
    regions = {note["task"]: note["region"] for note in notes}
    found: dict[str, list[str]] = {}
    for run in reversed(store.runs()):
        asked = all(run.options.get(n, options[n]) == options[n] for n in _OPTIONS if n in options)
        if run.task in regions and run.device == device and run.status is RunStatus.FINISHED and asked:
            found.setdefault(regions[run.task], []).append(run.id)
    return found


def _found(run: str, whole: WholeTask, plan: Planned, place: Path | str | None) -> WholeFound:
    with Store(place) as store:
        record = store.run(run)
        best = next(iter(accepted_of(store, record)), None)
        tried = store.evaluations(run)
    if best is not None and best.decision.status is DecisionStatus.IMPROVED:
        return WholeFound(run, best, whole.weights, task=whole.task)
    wrong = next((e for e in tried if e.verdict is not None and e.verdict.failure == "correct"), None)
    layer = wrong_layer(plan, wrong.candidate, (), place) if wrong is not None else ""
    where = f"; the first wrong one is wrong from {layer} on" if layer else ""
    late = any(e.decision.status in _OPEN for e in tried)
    timed = max((e for e in tried if _times(e)), key=_times, default=None)
    return WholeFound(
        run, reason=f"no program for all of it was accepted; {ends_of(tried)}{where}", late=late, timed=timed
    )


def _times(found: Evaluation) -> float:
    """Return how many times as fast as the best native form a program was timed; 0 where it was not."""
    return found.decision.speedup.median if found.decision.speedup else 0.0


def ends_of(tried: Sequence[Evaluation]) -> str:
    """Say what became of the programs that were tried, what happened most often first."""
    ends = Counter(f"{e.decision.status}: {e.decision.reason}" for e in tried)
    told = "; ".join(f"{count} {end}" for end, count in ends.most_common(_TOLD_ENDS))
    return f"{len(tried)} tried: {told}" if tried else "none could be written, or not in the time"
