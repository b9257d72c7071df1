"""Counters in a run: of whom they are taken, where they are kept, and who is asked for them."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from kernelwright.errors import BusyError
from kernelwright.records import Budget, Build, Counters
from kernelwright.search.evaluation._evaluation import Evaluator
from kernelwright.search.run._budget import Meter
from kernelwright.search.session import _counting
from kernelwright.search.session._counting import observing
from kernelwright.store import Spent, Store
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate, planted_task

FIGURES = Counters(tool="planted", workload="n=4", calls=1, figures={"ipc": 2.0})


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def test_who_leads_is_observed_and_its_counters_stay_with_it(store):
    run = store.create_run(planted_task(), device="cpu-1", budget=Budget(evaluations=9), seed=0)
    language, observed = PlantedLanguage(), []

    def observe(candidate, build):
        observed.append(candidate.key)
        return (FIGURES,)

    meter = Meter(run.budget, Spent())
    evaluator = Evaluator(run, store, PlantedJudge(), {"planted": language}, meter, observe)
    first, slower, wrong, best = (
        planted_candidate(80.0), planted_candidate(90.0), planted_candidate(1.0, fault="verify"),
        planted_candidate(60.0),
    )  # fmt: skip
    for one in (first, slower, wrong, best):
        evaluator.screen(one, language.build(one))
    assert observed == [first.key, best.key]
    assert evaluator.accept(best, language.build(best)).counters == (FIGURES,)
    kept = {e.candidate.key: e.counters for e in store.evaluations(run.id)}
    assert kept == {first.key: (FIGURES,), slower.key: (), wrong.key: (), best.key: (FIGURES,)}
    assert meter.stages_s["counters"] >= 0


class Planted:
    """Counts without a worker."""

    def __init__(self, problem, device, *, note):
        note("a tool is missing")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self, candidate, build, *, deadline_s):
        return (FIGURES,)


def setting(options, *, left_s=60.0, busy=False):
    said = []

    @contextmanager
    def timing():
        if busy:
            raise BusyError("others have it")
        yield

    return SimpleNamespace(
        run=SimpleNamespace(options=options), device=SimpleNamespace(kind="cpu"), timing=timing, said=said,
        meter=SimpleNamespace(left_to_explore_s=lambda: left_s),
        names=lambda option: options.get(option, ()),
        emit=lambda event, **data: said.append((event, data["message"])),
    )  # fmt: skip


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.setattr(_counting, "Counting", Planted)


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({}, False),
        ({"models": ("local:any",)}, True),
        ({"agent": "claude"}, True),
        ({"models": ("local:any",), "counters": False}, False),
        ({"counters": True}, True),
    ],
)
def test_it_is_on_where_somebody_reads_it_or_asks_for_it(planted, options, counts):
    with observing(setting(options), None) as observe:
        assert (observe is not None) == counts


def test_the_run_says_what_was_counted_and_what_was_not(planted):
    one, run = planted_candidate(80.0), setting({"models": ("local:any",)})
    with observing(run, None) as observe:
        assert observe(one, Build(status="ok")) == (FIGURES,)
    assert run.said == [("counters", "a tool is missing"), ("counters", str(FIGURES))]


@pytest.mark.parametrize("limits", [{"left_s": 1.0}, {"busy": True}])
def test_no_time_and_no_device_cost_only_the_counters(planted, limits):
    with observing(setting({"counters": True}, **limits), None) as observe:
        assert observe(planted_candidate(80.0), Build(status="ok")) == ()


def test_asked_for_in_vain_it_says_why(planted, monkeypatch):
    absent = SimpleNamespace(
        name="perf", available=lambda _: SimpleNamespace(ok=False, what="no", remedy="do")
    )
    monkeypatch.setattr(_counting, "PROFILERS", (absent,))
    run = setting({"counters": True})
    with observing(run, None):
        assert ("counters", "no profiler counts here: perf: no, do") in run.said
