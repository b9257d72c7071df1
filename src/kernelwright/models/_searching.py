"""Planned regions → their accepted kernels, searched one after the other where it pays."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import KernelwrightError, fault_of
from ..flow import optimize as search_op
from ..records import Budget
from ..search import accepted_of
from ..store import Store
from ._assemble import Accepted
from ._budget import Stream, kept_of, next_of
from ._look import LEAST_SHARE
from ._minutes import SHORTEST_S, TIME_UP, budget_of, region_s
from ._plan import Planned, overlaps_of, streams_of
from ._records import RegionOutcome
from ._task import region_task
from ._whole import ends_of, finished_runs, note_search
from .pieces import Unprintable

NOTHING_LEFT = "nothing left with an expected gain"
Search = Callable[..., Any]


class Regions:
    """The regions of a plan while they are searched."""

    def __init__(
        self, plan: Planned, key: str, options: dict[str, Any], say: Callable[..., None], search: Search = search_op
    ) -> None:  # fmt: skip
        """Prepare; nothing is taken over before it is known what kernels are held against.

        Args:
            plan: The model and its plan.
            key: Names the model and the device in the store.
            options: What searches take, `store` among them.
            say: Tells what happens.
            search: Searches one region.
        """
        self._plan, self._key, self._options, self._say, self._search = plan, key, options, say, search
        self._store: Path | str | None = options["store"]
        self._rows = {row.region: row for row in plan.plan.regions}
        self._streams = {stream.key: stream for stream in streams_of(plan.plan.regions)}
        self._overlaps = overlaps_of(plan.regions)
        self._accepted: dict[str, Accepted] = {}
        self._lost: dict[str, set[str]] = {}
        self._judged: list[frozenset[str]] = []
        self._ends: dict[str, str] = {}
        self.accepted_s = 0.0
        """The longest that accepting a kernel took."""

    def hold_against(self, baselines: tuple[str, ...]) -> None:
        """Hold kernels against these native forms, and take over finished runs of an earlier attempt that did."""
        self._options = {**self._options, "baselines": baselines}
        with Store(self._store) as store:
            known = finished_runs(store, self._key, self._plan.plan.device, self._options)
            for key, run in ((k, run) for k in self._streams for run in known.get(k, ())):
                self._note(self._streams[key], run, store)
                self._say("region", message=f"{self._rows[key].label}: run {run} taken over")

    def search(self, left_s: Callable[[], float]) -> str:
        """Search regions as long as one is worth it; return why it ends.

        Args:
            left_s: Tells the seconds that are left for searches.
        """
        while (stream := self.next(left_s())) is not None:
            left = left_s()
            self._search_one(stream, budget_of(region_s(stream.cost_s, left), left))
        return self._why_none(left_s())

    def next(self, left_s: float) -> Stream | None:
        """Return the region to search next; None where none is worth it or time is up."""
        if left_s < SHORTEST_S:
            return None
        least_us = LEAST_SHARE * self._plan.plan.time_us
        return next_of(self._streams.values(), left_s, self._overlaps, least_us)

    def _why_none(self, left_s: float) -> str:
        """Say why no region is searched next."""
        least_us = LEAST_SHARE * self._plan.plan.time_us
        wanted = next_of(self._streams.values(), math.inf, self._overlaps, least_us)
        if wanted is None:
            return NOTHING_LEFT
        label = self._rows[wanted.key].label
        fits = max(left_s, 0.0)
        return (
            f"{TIME_UP}: {label} is worth a search of {wanted.cost_s:.0f} s, and {fits:.0f} s are left for it"
        )

    def _search_one(self, stream: Stream, budget: Budget) -> None:
        """Search one region; whatever goes wrong is noted, and the others go on."""
        row, (capture, region) = self._rows[stream.key], self._plan.regions[stream.key]
        seconds = 60 * (budget.search_minutes or 0)
        self._say("region", message=f"{row.label} x{row.uses}: searching for {seconds:.0f} s")
        again = {"seed": stream.searches} if stream.searches else {}
        stream.searches += 1
        try:
            task = self._plan.loaded.judged(region_task(capture, region, self._plan.timed[capture.name]))
            with Store(self._store) as store:
                note_search(store, self._key, stream.key, task)
            found = self._search(task, budget=budget, **again, **self._options)
        except (KernelwrightError, Unprintable) as error:
            stream.failed = str(error)
        except Exception as error:  # noqa: BLE001  a region's failure never ends the model's run
            stream.failed = fault_of(error)
        else:
            with Store(self._store) as store:
                self._note(stream, found.run, store)
        if stream.failed:
            self._say("region", message=f"{row.label}: stays native: {stream.failed}")

    def _note(self, stream: Stream, run: str, store: Store) -> None:
        """Note what a finished run of a region brought."""
        if run in stream.runs:
            return
        stream.searches = max(stream.searches, len(stream.runs) + 1)
        stream.runs.append(run)
        record = store.run(run)
        lost = self._lost.get(stream.key, set())
        best = next((one for one in accepted_of(store, record) if one.candidate.key not in lost), None)
        if best is None:
            if not lost:
                self._ends[stream.key] = ends_of(store.evaluations(run))
            return
        self.accepted_s = max(self.accepted_s, best.time_s)
        speedup = best.decision.speedup.median if best.decision.speedup else 1.0
        if speedup > max(stream.speedup, stream.lost):
            stream.speedup, region = speedup, self._plan.regions[stream.key][1]
            self._accepted[stream.key] = Accepted(region, store.task(record.task), best.candidate)

    def accepted(self) -> list[Accepted]:
        """Return accepted kernels of regions that do not overlap, those that save the most first."""
        saved = {key: self._streams[key].saved_us for key in self._accepted}
        return [self._accepted[key] for key in kept_of(saved, self._overlaps)]

    def is_new(self, kernels: Sequence[Accepted]) -> bool:
        """Tell whether the model was not judged with these kernels yet."""
        return bool(kernels) and _names(kernels) not in self._judged

    def note_judged(self, kernels: Iterable[Accepted], lost: Iterable[Accepted]) -> None:
        """Note with which kernels the model was judged, and which of them it is not faster with.

        These are in hand no longer: regions that overlap with theirs are worth what they were, and a kernel of the same
        region must be faster than the one that was lost.
        """
        self._judged.append(_names(kernels))
        for one in lost:
            key = one.region.key
            stream = self._streams[key]
            stream.lost, stream.speedup = max(stream.lost, stream.speedup), 1.0
            self._lost.setdefault(key, set()).add(one.candidate.key)
            self._accepted.pop(key, None)

    def outcomes(
        self, kept: Sequence[Accepted], out: dict[str, str] | None = None
    ) -> tuple[RegionOutcome, ...]:
        """Return what came of each region that was tried."""
        inside = {a.region.key for a in kept}
        return tuple(
            self._outcome(s, s.key in inside, out or {}) for s in self._streams.values() if s.runs or s.failed
        )

    def _outcome(self, stream: Stream, kept: bool, out: dict[str, str]) -> RegionOutcome:
        row, speedup = self._rows[stream.key], max(stream.speedup, stream.lost)
        none = "; ".join(("no kernel was accepted", *(e for e in (self._ends.get(stream.key),) if e)))
        reason = "" if kept else out.get(stream.key) or stream.failed or none
        if not kept and speedup > 1.0 and stream.key not in out:
            reason = "a larger gain overlaps with it"
        return RegionOutcome(
            region=stream.key, label=row.label, uses=row.uses, runs=tuple(stream.runs), kept=kept, reason=reason,
            speedup=speedup if speedup > 1.0 else None, expected_us=row.gain.expected,
        )  # fmt: skip


def _names(kernels: Iterable[Accepted]) -> frozenset[str]:
    return frozenset(f"{a.region.key} {a.candidate.key}" for a in kernels)
