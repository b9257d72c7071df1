"""A search whose candidates are judged by evaluators of a cluster: the same candidates, the same decisions."""

import json
import math
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from types import SimpleNamespace

import pytest

from kernelwright.cluster import JobFailed, Place, Workplace
from kernelwright.devices import detect
from kernelwright.errors import MissingToolError
from kernelwright.records import Budget, Build, BuildStatus, DecisionStatus, Evaluation, Parameter, Space
from kernelwright.search.evaluation import remote
from kernelwright.search.evaluation._evaluation import Evaluator
from kernelwright.search.evaluation.remote import RemoteJudge
from kernelwright.search.proposals._remote_builder import RemoteBuilder
from kernelwright.search.proposals._scheduler import Scheduler, Trial
from kernelwright.search.run._budget import Meter
from kernelwright.search.session._choices import device_of
from kernelwright.search.session._session import Session
from kernelwright.search.tuners import make_tuner
from kernelwright.store import Spent, Store
from kernelwright.testing import (
    PlantedJudge,
    PlantedLanguage,
    PlantedTemplate,
    planted_candidate,
    planted_task,
)

DEVICE = detect("cpu")


class Threads:
    """A cluster whose evaluators are threads of this process."""

    def __init__(self, cache, width=1):
        place = Place(
            name="e", node="n", host="far", device=DEVICE, cores=(0,), alone=True, noise=0.0, versions={}
        )
        self.places, self.jobs, self.dead = (place,) * width, [], set()
        self._here = [Workplace(place, cache) for _ in range(width)]
        self._threads = ThreadPoolExecutor(width)

    def wait(self):
        return self.places

    def submit(self, job):
        self.jobs.append(job)
        return self._threads.submit(self._do, job, self._here[len(self.jobs) % len(self._here)])

    def _do(self, job, here):
        if any(key in job.key for key in self.dead):
            raise JobFailed("5 evaluators died of it")
        module, _, name = job.function.partition(":")
        return getattr(import_module(module), name)(job.text, here)


class Opened(PlantedJudge):
    """Stands for `Acceptance` on a node."""

    made = 0

    def __init__(self, problem, device, bounds, baselines, timing, *, languages, emit):
        super().__init__()
        type(self).made += 1
        self._emit = emit

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def screen(self, candidate, build, *, deadline_s=math.inf):
        self._emit("verified", candidate=candidate.key)
        self._emit("prescreen", candidate=candidate.key)
        return super().screen(candidate, build)


@pytest.fixture
def nodes(monkeypatch):
    language = PlantedLanguage()
    monkeypatch.setattr(remote, "get_language", lambda name: language)
    monkeypatch.setattr(remote, "Acceptance", Opened)
    monkeypatch.setattr(remote, "Problem", lambda task: None)
    Opened.made = 0
    return language


@pytest.fixture
def setting(tmp_path):
    with Store(tmp_path / "store") as store:
        options = {"languages": ("planted",), "baselines": ("eager",)}
        run = store.create_run(
            planted_task(), device=DEVICE.fingerprint, budget=Budget(evaluations=12), seed=0, options=options
        )
        said = []
        yield SimpleNamespace(
            run=run, store=store, device=DEVICE, meter=Meter(run.budget, Spent()), said=said,
            emit=lambda event, **data: said.append((event, data)), names=lambda name: options.get(name, ()),
        )  # fmt: skip


def judge(setting, cluster):
    return RemoteJudge(setting, cluster, setting.store.task(setting.run.task), ())


def searched(setting, judge, builder, languages):
    """Search a planted space and return what was evaluated and decided, in order."""
    space = Space(parameters=(Parameter(name="tile", values=tuple(range(1, 40))),))
    template = PlantedTemplate("t", space, lambda c: 20.0 + (c["tile"] - 17) ** 2, {"tile": 1})
    evaluator = Evaluator(setting.run, setting.store, judge, languages, setting.meter)
    scheduler = Scheduler(iter([template]), lambda s: make_tuner("annealing", s, 0))
    with builder:
        outcome = Session(scheduler, builder, evaluator, setting.meter, setting.emit).run()
    return [(e.candidate.key, e.decision, e.stage) for e in outcome.evaluations]


class Ahead:
    """Judges here, with trials as far ahead as on a cluster."""

    def __init__(self, language):
        self.language = language

    def begin(self, candidate):
        pass

    def built(self, candidate):
        return self.language.build(candidate)


@pytest.mark.parametrize("width", [1, 3])
def test_a_search_is_as_without_a_cluster(nodes, setting, tmp_path, width):
    cluster = Threads(tmp_path, width)
    found = judge(setting, cluster)
    there = searched(
        setting, found, RemoteBuilder(found.begin, found.built, lambda: found.width), found.languages
    )
    spent = setting.store.spent(setting.run.id)
    assert spent.evaluations == len(there) == 12 and any(stage == "full" for *_, stage in there)
    again = setting.store.create_run(
        planted_task(), device="cpu-elsewhere", budget=Budget(evaluations=12), seed=0, options={}
    )
    here = SimpleNamespace(**{**vars(setting), "run": again, "meter": Meter(again.budget, Spent())})
    ahead = Ahead(nodes)
    alone = searched(
        here, PlantedJudge(), RemoteBuilder(ahead.begin, ahead.built, lambda: width), {"planted": nodes}
    )
    assert there == alone


def test_a_device_is_measured_before_the_minutes_begin(tmp_path, monkeypatch):
    cluster, measured = Threads(tmp_path), []
    for name in ("peaks_of", "rates_of"):
        monkeypatch.setattr(
            remote, name, lambda device: measured.append(device) or SimpleNamespace(to_json=str)
        )
    assert device_of("cpu", cluster) == DEVICE
    assert measured == [DEVICE] * 2 and [job.device for job in cluster.jobs] == [DEVICE.fingerprint]


def test_the_first_trial_waits_for_no_other():
    builder = RemoteBuilder(lambda candidate: None, lambda candidate: Build(status=BuildStatus.OK), lambda: 2)
    given = []
    for number in range(4):
        while builder.hungry:
            builder.give(Trial(planted_candidate(20.0)), known=False)
        given.append(len(builder))
        if not number:
            builder.take()
    assert given == [1, 3, 3, 3], "a proposer may take minutes for the second"


def test_what_was_begun_is_judged_once_and_events_of_a_run_come_once(nodes, setting, tmp_path):
    cluster = Threads(tmp_path)
    found = judge(setting, cluster)
    ok = Build(status=BuildStatus.OK)
    for time_us in (20.0, 30.0):
        candidate = planted_candidate(time_us)
        found.begin(candidate)
        found.begin(candidate)
        assert found.built(candidate).status is BuildStatus.OK
        assert found.screen(candidate, ok).decision.time_us == time_us
    screened = [job for job in cluster.jobs if " screen " in job.key]
    assert len(screened) == 2 and {job.device for job in cluster.jobs} == {DEVICE.fingerprint}
    assert Opened.made == 1, "the judge of a run stays open"
    assert [event for event, _ in setting.said].count("verified") == 1
    assert [event for event, _ in setting.said].count("prescreen") == 2


def test_a_candidate_that_kills_evaluators_is_unknown_and_ships_never(nodes, setting, tmp_path):
    cluster, candidate = Threads(tmp_path), planted_candidate(20.0)
    cluster.dead = {candidate.key}
    found = judge(setting, cluster)
    one = found.accept(candidate, Build(status=BuildStatus.OK))
    assert one.decision.status is DecisionStatus.UNKNOWN and "5 evaluators died" in one.decision.reason
    accepted = PlantedJudge().accept(candidate, Build(status=BuildStatus.OK))
    assert found.widen(accepted) is accepted


def test_a_build_that_fails_there_is_told_here(nodes, setting, tmp_path):
    found = judge(setting, Threads(tmp_path))
    candidate = planted_candidate(20.0, fault="build")
    found.begin(candidate)
    assert found.built(candidate).status is BuildStatus.FAILED
    assert found.screen(candidate, Build(status=BuildStatus.OK)).decision.status is DecisionStatus.REJECTED


def test_a_node_with_another_compiler_is_not_believed(nodes, setting, tmp_path):
    found = judge(setting, Threads(tmp_path))
    nodes._toolchain = "planted 2"
    with pytest.raises(MissingToolError, match="'planted 2', and the run began with another"):
        found._heard(found._submitted("screen", planted_candidate(1.0), deadline_s=1.0))


def test_no_path_of_a_node_comes_back(nodes, setting, tmp_path):
    found = judge(setting, Threads(tmp_path))
    answer: Future[str] = found._submitted("screen", planted_candidate(1.0), deadline_s=1.0)
    assert Evaluation.from_json(json.loads(answer.result())["evaluation"]).build.artefact is None
