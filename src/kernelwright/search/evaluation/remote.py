"""The judge of a run on a cluster: each candidate is built, verified and timed by one evaluator, several at once.

Covers: evaluators that are lost (the candidate is judged again elsewhere); evaluators of other devices or compilers
than the run's, which are not asked; a candidate that kills every evaluator, whose evaluation is `unknown`.
Does not cover: performance counters, which are not collected on a cluster.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pydantic import JsonValue

from ...bound import Rates, rates_of
from ...cluster import Cluster, Job, JobFailed, Workplace
from ...config import Settings
from ...devices import Device, Peaks, peaks_of
from ...errors import MissingToolError
from ...languages import get_language
from ...profile import Profile, profile
from ...records import (
    Bound,
    Build,
    BuildStatus,
    Candidate,
    Decision,
    DecisionStatus,
    Evaluation,
    Split,
    Task,
)
from ...store import DeviceLock
from ...tasks import Problem
from ..run._run import Search
from ._evaluation import unbuilt
from ._protocol import Toolchain
from .acceptance import Acceptance, harness_of

_ONCE = frozenset({"isolation", "verified"})
"""Events that every evaluator reports and a run only once."""
_KEPT = "judge"


class RemoteJudge:
    """A `Judge` whose work is done by a cluster's evaluators of the run's device.

    `begin` submits a screening ahead; `screen` waits for it. What is screened, and in which order its results are used,
    does not depend on which evaluator is faster.
    """

    def __init__(self, setting: Search, cluster: Cluster, task: Task, bounds: Sequence[Bound]) -> None:
        baselines = setting.names("baselines")
        self.harness = harness_of(baselines)
        self._setting, self._cluster, self._numbers = setting, cluster, count()
        languages = setting.names("languages")
        self.languages = toolchains_on(cluster, setting.device.fingerprint, languages)
        self._request = {
            "run": setting.run.id, "task": task.to_json(), "baselines": list(baselines),
            "bounds": [b.to_json() for b in bounds], "languages": list(languages),
            "toolchains": {name: language.version for name, language in self.languages.items()},
        }  # fmt: skip
        self._begun: dict[str, Future[str]] = {}
        self._screened: dict[str, Evaluation] = {}
        self._builds: dict[str, Build] = {}
        self._said: set[str] = set()

    @property
    def width(self) -> int:
        """How many candidates can be judged at once."""
        mine = self._setting.device.fingerprint
        return max(1, sum(p.device.fingerprint == mine for p in self._cluster.places))

    def begin(self, candidate: Candidate) -> None:
        """Start a screening, if it was not begun."""
        if candidate.key not in self._begun:
            left_s = self._setting.meter.left_s()
            self._begun[candidate.key] = self._submitted("screen", candidate, deadline_s=left_s)

    def built(self, candidate: Candidate) -> Build:
        """Wait for a screening that was begun, and return its build; what is known from elsewhere counts as built."""
        if candidate.key in self._begun:
            self.screen(candidate, Build(status=BuildStatus.OK))
        return self._builds.get(candidate.key) or Build(status=BuildStatus.OK)

    def precompute(self) -> None:
        """Do nothing: evaluators compute expected values when they need them."""

    def screen(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Return the screening, waiting for it where it was begun."""
        del build
        if candidate.key not in self._screened:
            begun = self._begun.get(candidate.key) or self._submitted(
                "screen", candidate, deadline_s=deadline_s
            )
            self._screened[candidate.key] = self._answer(candidate, "screen", begun)
        return self._screened[candidate.key]

    def vet(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Verify it in full, without timing."""
        del build
        return self._answer(candidate, "full", self._submitted("vet", candidate, deadline_s=deadline_s))

    def accept(
        self,
        candidate: Candidate,
        build: Build,
        *,
        workloads: Sequence[str] = (),
        tried: int = 1,
        deadline_s: float = math.inf,
    ) -> Evaluation:
        """Put it through everything, on one evaluator."""
        del build
        more: dict[str, JsonValue] = {"workloads": list(workloads), "tried": tried}
        begun = self._submitted("accept", candidate, deadline_s=deadline_s, **more)
        return self._answer(candidate, "screen", begun)

    def widen(self, accepted: Evaluation, *, deadline_s: float = math.inf) -> Evaluation:
        """Look at sizes around those that it was accepted on; where that fails, it serves those alone."""
        begun = self._submitted(
            "widen", accepted.candidate, deadline_s=deadline_s, accepted=accepted.to_json()
        )
        try:
            return self._heard(begun)
        except JobFailed as failed:
            self._setting.emit("cluster", message=f"other sizes were not looked at: {failed}")
            return accepted

    def _submitted(
        self, verb: str, candidate: Candidate, *, deadline_s: float, **more: JsonValue
    ) -> "Future[str]":
        text = json.dumps({
            **self._request, "verb": verb, "candidate": candidate.to_json(), "deadline_s": deadline_s, **more,
        })  # fmt: skip
        key = f"{self._setting.run.id} {candidate.key} {verb} {next(self._numbers)}"
        return self._cluster.submit(
            Job(key, f"{__name__}:judge_here", text, device=self._setting.device.fingerprint)
        )

    def _answer(self, candidate: Candidate, stage: str, begun: "Future[str]") -> Evaluation:
        try:
            found = self._heard(begun)
        except JobFailed as failed:
            reason = f"no evaluator could judge it: {failed}"
            decision = Decision(candidate=candidate.key, status=DecisionStatus.UNKNOWN, reason=reason)
            build = Build(status=BuildStatus.UNAVAILABLE, diagnostics=reason)
            found = Evaluation(candidate=candidate, build=build, decision=decision, stage=stage)
        self._builds[candidate.key] = found.build
        return found.model_copy(update={"candidate": candidate})

    def _heard(self, begun: "Future[str]") -> Evaluation:
        """Wait for an answer, and report what happened meanwhile."""
        answer = json.loads(begun.result())
        for event, data in answer["events"]:
            if event not in self._said or event not in _ONCE:
                self._setting.emit(event, **data)
            self._said.add(event)
        return Evaluation.from_json(answer["evaluation"])


def toolchains_on(cluster: Cluster, device: str, languages: Sequence[str]) -> dict[str, Toolchain]:
    """Return the languages as they are on a node with the device.

    Raises:
        MissingToolError: a language lacks its tools there.
    """
    job = Job(
        f"toolchains {device} {languages}", f"{__name__}:toolchains_here", json.dumps(list(languages)), device
    )
    try:
        found = json.loads(cluster.submit(job).result())
    except JobFailed as failed:
        raise MissingToolError(f"on the cluster: {failed}") from None
    return {name: Toolchain(name, version) for name, version in found.items()}


def measure_on(cluster: Cluster, device: Device) -> None:
    """Have an evaluator measure what the device can reach, unless that is known there: no run's minutes pay for it."""
    cluster.submit(
        Job(f"peaks {device.fingerprint}", f"{__name__}:measure_here", device=device.fingerprint)
    ).result()


def measured_on(cluster: Cluster, task: Task) -> tuple[Peaks, Rates, Profile]:
    """Return the peaks and rates of a cluster's device and the profile of a task on it, measured by an evaluator."""
    device = cluster.wait()[0].device.fingerprint
    job = Job(f"measured {device} {task.key}", f"{__name__}:measure_here", task.to_json(), device)
    found = json.loads(cluster.submit(job).result())
    return (
        Peaks.from_json(found["peaks"]), Rates.from_json(found["rates"]), Profile.from_json(found["profile"]),
    )  # fmt: skip


def toolchains_here(text: str, here: Workplace) -> str:
    """On a node: return the versions of the languages, or say which lacks its tools."""
    del here
    found = {}
    for name in json.loads(text):
        language = get_language(name)
        if not (tools := language.available()).ok:
            raise MissingToolError(f"language {name!r} cannot be used: {tools.what}; {tools.remedy}")
        found[name] = language.toolchain()
    return json.dumps(found)


def measure_here(text: str, here: Workplace) -> str:
    """On a node: measure the device, unless that is known, and profile the task if there is one."""
    device = here.place.device
    with _lock(here).hold():
        found = {"peaks": peaks_of(device).to_json(), "rates": rates_of(device).to_json()}
        if text:
            problem = Problem(Task.from_json(text))
            found["profile"] = profile(problem, problem.task.split(Split.SEARCH)[0], device).to_json()
    return json.dumps(found)


def judge_here(text: str, here: Workplace) -> str:
    """On a node: build a candidate and do what is asked with it."""
    asked = json.loads(text)
    candidate = Candidate.from_json(asked["candidate"])
    language, deadline_s = get_language(candidate.language), asked["deadline_s"]
    if language.toolchain() != asked["toolchains"].get(candidate.language):
        raise MissingToolError(
            f"{here.place.host} has {language.toolchain()!r}, and the run began with another"
        )
    opened = _opened(asked, here)
    build = language.build(candidate, deadline_s=min(120.0, max(1.0, deadline_s)))
    judge, verb = opened.judge, asked["verb"]
    if build.status is not BuildStatus.OK:
        found = unbuilt(candidate, build)
    elif verb == "widen":
        accepted = Evaluation.from_json(asked["accepted"]).model_copy(update={"build": build})
        found = judge.widen(accepted, deadline_s=deadline_s)
    elif verb == "accept":
        found = judge.accept(
            candidate, build, workloads=asked["workloads"], tried=asked["tried"], deadline_s=deadline_s
        )
    else:
        found = (judge.vet if verb == "vet" else judge.screen)(candidate, build, deadline_s=deadline_s)
    found = found.model_copy(update={"build": found.build.model_copy(update={"artefact": None})})
    events, opened.events[:] = list(opened.events), []
    return json.dumps({"evaluation": found.to_json(), "events": events})


@dataclass
class _Opened:
    """The judge of one run in an evaluator, kept from one candidate to the next."""

    run: str
    judge: Acceptance
    close: Callable[[], None]
    events: list[tuple[str, dict[str, JsonValue]]] = field(default_factory=list)


def _opened(asked: Mapping[str, Any], here: Workplace) -> _Opened:
    """Return the judge of the run, and close that of another."""
    kept = here.kept.get(_KEPT)
    if isinstance(kept, _Opened) and kept.run == asked["run"]:
        return kept
    if isinstance(kept, _Opened):
        kept.close()
    events: list[tuple[str, dict[str, JsonValue]]] = []
    stack = ExitStack()
    judge = Acceptance(
        Problem(Task.from_json(asked["task"])), here.place.device, [Bound.from_json(b) for b in asked["bounds"]],
        tuple(asked["baselines"]), _lock(here).hold, languages=asked["languages"],
        emit=lambda event, **data: events.append((event, data)),
    )  # fmt: skip
    stack.enter_context(judge)
    here.kept[_KEPT] = _Opened(asked["run"], judge, stack.close, events)
    return _opened(asked, here)


def _lock(here: Workplace) -> DeviceLock:
    return DeviceLock(Settings.from_environment().cache / "locks", here.place.device.fingerprint)
