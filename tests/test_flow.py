"""The flow with planted candidates on a real task: what is called, what is kept, what is given back."""

import json
import signal
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import kernelwright as kw
from kernelwright import flow
from kernelwright.api import judge as judging
from kernelwright.config import Settings
from kernelwright.devices import Peaks, detect
from kernelwright.errors import InputError, MissingToolError, NotFoundError, TaskError
from kernelwright.languages import Availability
from kernelwright.records import Budget, DecisionStatus, Parameter, RunStatus, Space, Split
from kernelwright.search import Meter
from kernelwright.search.proposals import _proposals
from kernelwright.search.session import _choices, _packaging, _search
from kernelwright.store import DeviceLock, Store
from kernelwright.tasks import load_task
from kernelwright.testing import PlantedJudge, PlantedLanguage, PlantedTemplate, planted_candidate

TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def double(x):
    return x * 2
"""


class World:
    """A planted judge, language and proposer; each can be changed by a test."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "double.py"
        self.file.write_text(TASK)
        self.judge, self.language = PlantedJudge(), PlantedLanguage()
        self.proposals, self.requests, self.events, self.packaged = [], [], [], []

    name = "planted"

    def propose(self, request):
        self.requests.append(request)
        yield from self.proposals

    @contextmanager
    def open_judge(self, setting, problem, bounds, pool=None):
        yield self.judge

    def package(self, task, run, accepted, folder, about):
        self.packaged.append((run.id, *(e.candidate.key for e in accepted)))
        return folder

    @property
    def store(self):
        return self.folder / "store"

    def optimize(self, target=None, **options):
        chosen = {
            "languages": ("planted",),
            "proposers": ("planted",),
            "budget": Budget(evaluations=5),
            **options,
        }
        return kw.optimize(target or self.file, store=self.store, on_event=self.events.append, **chosen)


@pytest.fixture
def world(monkeypatch, tmp_path, shared_cache):
    world = World(tmp_path)
    for module in (_choices, _search):
        monkeypatch.setattr(module, "get_language", lambda name: world.language)
    for module in (_choices, _proposals):
        monkeypatch.setattr(module, "make_proposers", lambda names: [world])
    for module in (flow, judging):
        monkeypatch.setattr(module, "open_judge", world.open_judge)
    monkeypatch.setattr(flow, "peaks_of", lambda device: Peaks(device=device.fingerprint, values={}))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(shared_cache))
    monkeypatch.setattr(_packaging, "package_accepted", world.package)
    return world


def test_the_best_is_accepted_packaged_and_kept(world):
    world.proposals = [
        planted_candidate(80.0),
        planted_candidate(40.0),
        planted_candidate(10.0, fault="verify"),
    ]
    result = world.optimize()
    assert result.decision is DecisionStatus.IMPROVED
    assert result.speedup.median == 2.5 and result.baseline == "eager"
    assert result.fraction_of_bound == pytest.approx(0.25)
    assert (result.evaluations, result.cached, result.failures) == (3, 0, {"correct": 1})
    assert world.packaged == [(result.run, planted_candidate(40.0).key)]
    assert result.kernel == str(world.store / "kernels" / result.run)
    with Store(world.store) as store:
        assert store.run(result.run).status is RunStatus.FINISHED
        assert store.result(result.run) == result.model_dump(mode="json")


def test_the_result_line_is_as_documented(world):
    world.proposals = [planted_candidate(50.0)]
    line = json.loads(world.optimize().line())
    assert list(line) == [
        "event", "run", "task", "decision", "speedup", "baseline", "bound_us", "time_us", "fraction_of_bound",
        "kernel", "evaluations", "cached", "failures", "usd", "start_up", "reason", "caveat", "executed", "modelled",
    ]  # fmt: skip
    assert line["event"] == "result" and set(line["speedup"]) == {"median", "low", "high"}


def test_stages_speak_in_order_and_the_log_is_kept(world):
    world.proposals = [planted_candidate(50.0)]
    result = world.optimize()
    names = [e.event for e in world.events]
    assert names == [
        "run",
        "profile",
        "captured",
        "bound",
        "hints",
        "evaluation",
        "explored",
        "accept",
        "accepted",
        "serves",
        "standing",
        "spent",
    ]
    with Store(world.store) as store:
        assert [e["event"] for e in store.events(result.run)] == names


def test_proposers_are_told_task_device_bounds_and_seed(world):
    world.optimize(seed=11)
    (request,) = world.requests
    assert request.problem.task.name == "double" and request.seed == 11
    assert request.languages == ("planted",) and request.device.kind == "cpu"
    assert [b.workload for b in request.bounds] == [w.name for w in load_task(world.file).split(Split.SEARCH)]


def test_nothing_better_found_is_a_result(world):
    world.proposals = [planted_candidate(130.0)]
    result = world.optimize()
    assert result.decision is DecisionStatus.SLOWER and result.kernel is None and world.packaged == []


def test_a_second_run_evaluates_nothing_again(world):
    world.proposals = [planted_candidate(80.0), planted_candidate(40.0)]
    world.optimize()
    again = world.optimize()
    assert (again.evaluations, again.cached) == (0, 2)
    assert again.decision is DecisionStatus.IMPROVED
    assert len(world.judge.screened) == 2 and len(world.judge.accepted) == 1


def test_tasks_and_functions_are_targets_too(world):
    namespace = {}
    exec(compile(TASK, str(world.file), "exec"), namespace)
    for target in (load_task(world.file), namespace["double"], f"{world.file}:double", str(world.file)):
        assert world.optimize(target).task == "double"


def test_interrupt_is_raised_after_everything_is_kept(world):
    class Dying(PlantedJudge):
        def screen(self, candidate, build, **limits):
            if self.screened:
                raise KeyboardInterrupt
            return super().screen(candidate, build, **limits)

    world.proposals = [planted_candidate(50.0), planted_candidate(40.0), planted_candidate(30.0)]
    honest, world.judge = world.judge, Dying()
    with pytest.raises(KeyboardInterrupt):
        world.optimize()
    with Store(world.store) as store:
        run = store.run("last")
        assert run.status is RunStatus.INTERRUPTED
        assert len(store.evaluations(run.id)) == 1
    world.judge = honest
    result = flow.resume("last", store=world.store)
    assert (result.run, result.evaluations) == (run.id, 3)
    assert result.decision is DecisionStatus.IMPROVED and len(honest.screened) == 2


@pytest.mark.parametrize("budget", [Budget(evaluations=5), Budget(evaluations=5, minutes=1e-4)])
def test_finishing_a_run_asks_nobody_and_accepts_the_best_so_far(world, budget):
    class Dying(PlantedJudge):
        def accept(self, candidate, build, **limits):
            raise KeyboardInterrupt

    world.proposals = [planted_candidate(50.0), planted_candidate(40.0)]
    honest, world.judge = world.judge, Dying()
    with pytest.raises(KeyboardInterrupt):
        world.optimize()
    with Store(world.store) as store:
        run = store.run("last").model_copy(update={"budget": budget})
        store._database.write("UPDATE runs SET record = ? WHERE id = ?", (run.to_json(), run.id))
    world.judge, asked = honest, len(world.requests)
    world.proposals.append(planted_candidate(10.0))
    result = flow.resume("last", finish=True, store=world.store)
    assert len(world.requests) == asked, "nobody is asked"
    assert (result.decision, result.evaluations) == (DecisionStatus.IMPROVED, 2)
    assert result.speedup.median == pytest.approx(2.5)
    assert world.packaged[-1][1:] == (planted_candidate(40.0).key,)
    assert honest.screened == []


def test_resuming_a_finished_run_gives_its_result_again(world):
    world.proposals = [planted_candidate(50.0)]
    result = world.optimize()
    assert flow.resume(result.run, store=world.store) == result
    assert len(world.judge.screened) == 1


def test_judge_gives_verdict_and_decision(world):
    accepted = kw.judge(world.file, planted_candidate(50.0), store=world.store)
    assert (accepted.verdict, accepted.decision) == ("accepted", "improved")
    rejected = kw.judge(world.file, planted_candidate(50.0, fault="accept"), store=world.store)
    assert (rejected.verdict, rejected.decision) == ("rejected", "rejected")
    assert [f.status for f in rejected.findings] == ["fail"]
    unbuilt = kw.judge(world.file, planted_candidate(50.0, fault="build"), store=world.store)
    assert unbuilt.verdict == "rejected" and unbuilt.findings[0].check == "build"
    with pytest.raises(InputError, match="judge them again"):
        flow.resume("last", store=world.store)


def test_a_run_of_another_device_is_not_resumed(world):
    with Store(world.store) as store:
        options = {"device": "cpu", "languages": ("planted",), "proposers": ("planted",), "tuner": "local"}
        task = load_task(world.file)
        store.create_run(task, device="cpu-elsewhere", budget=Budget(evaluations=1), seed=0, options=options)
    with pytest.raises(InputError, match="start a new run"):
        flow.resume("last", store=world.store)


def test_wrong_names_are_told_before_anything_is_done(world, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(NotFoundError, match="nosuch"):
        world.optimize(proposers=("nosuch",), languages=())
    with pytest.raises(NotFoundError, match="nosuch"):
        world.optimize(languages=("nosuch",), proposers=("library",))
    with pytest.raises(NotFoundError, match="nosuch"):
        world.optimize(device="nosuch", languages=(), proposers=("library",))
    with pytest.raises(TaskError):
        world.optimize(world.folder / "nosuch.py", languages=(), proposers=("library",))
    assert not world.store.exists()


def test_a_language_without_its_tools_says_how_to_get_them(world):
    world.language.available = lambda: Availability(False, "no compiler", "apt install planted")
    with pytest.raises(MissingToolError, match="apt install planted"):
        world.optimize()


def test_a_run_begins_with_what_earlier_runs_teach_unless_told_not_to(world):
    space = Space(parameters=(Parameter(name="tile", values=(1, 2, 4)),))
    template = PlantedTemplate("tiles", space, lambda c: 80.0 / c["tile"], {"tile": 1})
    world.proposals = [template]
    world.optimize()
    for learn, expected in ((True, 3), (False, 0)):
        world.events.clear()
        world.optimize(learn=learn)
        (said,) = [e for e in world.events if e.event == "hints"]
        assert len(said.data["hints"]) == expected


def test_a_device_that_others_hold_is_not_waited_for_longer_than_the_minutes(world):
    world.proposals = [planted_candidate(50.0)]
    task = load_task(world.file)
    with others_hold_the_device():
        result = world.optimize(task, budget=Budget(minutes=1e-6))
    assert (result.decision, result.evaluations) == (DecisionStatus.UNKNOWN, 0)
    assert "held the device" in next(e for e in world.events if e.event == "budget").data["message"]
    with Store(world.store) as store:
        assert store.run(result.run).status is RunStatus.FINISHED


def test_what_was_accepted_before_is_packaged_though_the_device_is_held(world, monkeypatch):
    world.proposals = [planted_candidate(50.0)]
    finish = Store.finish_run
    monkeypatch.setattr(Store, "finish_run", lambda *_: None)  # as if it had been killed at the end
    run = world.optimize(budget=Budget(minutes=1000, evaluations=1)).run
    monkeypatch.setattr(Store, "finish_run", finish)
    monkeypatch.setattr(Meter, "left_s", lambda _: 0.0)
    with others_hold_the_device():
        result = flow.resume(run, store=world.store)
    assert result.decision is DecisionStatus.IMPROVED
    assert world.packaged[-1] == (run, planted_candidate(50.0).key)


@contextmanager
def others_hold_the_device():
    lock = DeviceLock(Settings.from_environment().cache / "locks", detect("cpu").fingerprint)
    with lock.hold():
        yield


@pytest.mark.parametrize("stage", ["peaks_of", "profile", "bound"])
def test_a_stage_that_hangs_before_the_search_ends_with_the_budget(world, monkeypatch, stage):
    monkeypatch.setattr(flow, stage, lambda *_: time.sleep(600))
    task = load_task(world.file)
    result = world.optimize(task, budget=Budget(minutes=0.02))
    assert (result.decision, result.evaluations, result.kernel) == (DecisionStatus.UNKNOWN, 0, None)
    assert result.reason.startswith("nothing was evaluated: time was up before anything was tried")


def test_what_hangs_in_the_search_ends_soon_after_the_budget(world):
    def hang(*_, **__):
        left_s, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left_s <= 60 + _search._GRACE_S
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # the minute is over
        time.sleep(600)

    world.judge.screen = hang
    world.proposals = [planted_candidate(80.0)]
    result = world.optimize(load_task(world.file), budget=Budget(minutes=1))
    assert (result.decision, result.evaluations) == (DecisionStatus.UNKNOWN, 0)
    assert any("in the middle of an evaluation" in str(e.data.get("message")) for e in world.events)


def test_the_minutes_count_from_when_the_user_began(world):
    world.proposals = [planted_candidate(80.0)]
    begun = time.monotonic() - 3600
    result = world.optimize(load_task(world.file), budget=Budget(minutes=60), begun=begun)
    assert result.evaluations == 0


def test_what_a_proposer_leaves_out_is_told_in_the_run(world, monkeypatch):
    def propose(request):
        request.emit("one action is left out")
        yield planted_candidate(70.0)

    modest = SimpleNamespace(name="modest", propose=propose)
    monkeypatch.setattr(_proposals, "make_proposers", lambda names: [modest])
    world.optimize()
    assert [e.data["message"] for e in world.events if e.event == "proposer"] == ["one action is left out"]


def test_a_proposer_that_fails_ends_itself_and_not_the_run(world, monkeypatch):
    class Faulty:
        name = "faulty"

        def propose(self, request):
            yield planted_candidate(70.0)
            raise IndexError("out of ideas")

    world.proposals = [planted_candidate(60.0)]
    monkeypatch.setattr(_proposals, "make_proposers", lambda names: [Faulty(), world])
    result = world.optimize()
    assert result.decision == "improved" and result.evaluations == 2
    (said,) = [e.data["message"] for e in world.events if e.event == "proposer"]
    assert said.startswith("faulty failed: IndexError: out of ideas (test_flow.py, line")


@pytest.mark.parametrize(("cluster", "counted_s"), [(None, 500), (SimpleNamespace(), 0)])
def test_minutes_begin_once_a_cluster_is_there(world, monkeypatch, cluster, counted_s):
    now = [0.0]

    def come(name, cluster):
        now[0] += 500
        return detect("cpu")

    monkeypatch.setattr(flow, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(flow, "device_of", come)
    monkeypatch.setattr(flow, "usable_languages", lambda *_: ("planted",))
    monkeypatch.setattr(flow, "_search", lambda setting: setting.meter.elapsed_s)
    found = flow.optimize(world.file, cluster=cluster, store=world.folder / "store")
    assert found == pytest.approx(counted_s, abs=60)
