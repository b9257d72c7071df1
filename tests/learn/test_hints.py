"""Hints on planted runs: they bring the best forward, and only order what is tried."""

import pytest

from kernelwright.learn import Hint, hints_of
from kernelwright.records import Budget, Parameter, Space
from kernelwright.search.evaluation._evaluation import Evaluator
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.proposals._scheduler import Scheduler
from kernelwright.search.run._budget import Meter
from kernelwright.search.session._session import Session
from kernelwright.search.tuners import make_tuner
from kernelwright.store import Store
from kernelwright.testing import PlantedJudge, PlantedLanguage, PlantedTemplate, planted_task

SPACE = Space(
    parameters=(
        Parameter(name="tile", values=tuple(range(1, 33))),
        Parameter(name="unroll", values=(1, 2, 4, 8)),
    )
)
LANGUAGES = {"planted": PlantedLanguage()}


def template(best, at=29):
    return PlantedTemplate(
        "tiles",
        SPACE,
        lambda c: best + 3 * abs(c["tile"] - at) + abs(c["unroll"] - 4),
        {"tile": 1, "unroll": 1},
    )


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def search(store, proposal, *, task="one", device="cpu-1", evaluations, hints=(), tuner="random"):
    run = store.create_run(
        planted_task(task), device=device, budget=Budget(evaluations=evaluations), seed=1, options={}
    )
    meter, judge = Meter(run.budget, store.spent(run.id)), PlantedJudge()
    scheduler = Scheduler(
        iter([proposal]), lambda space: make_tuner(tuner, space, run.seed), hints=hints, patience=1000
    )
    with Builder(LANGUAGES, width=1) as builder:
        evaluator = Evaluator(run, store, judge, LANGUAGES, meter)
        return run, Session(scheduler, builder, evaluator, meter, lambda *_, **__: None).run()


def begun(store, task="two", device="cpu-1"):
    return store.create_run(planted_task(task), device=device, budget=Budget(evaluations=1), seed=1)


def test_an_earlier_run_brings_the_best_forward(store):
    search(store, template(40.0), evaluations=100)
    hints = hints_of(store, begun(store))
    assert hints == tuple(sorted(hints, key=lambda one: one.cost))
    _, without = search(store, template(50.0), task="three", evaluations=4)
    _, taught = search(store, template(50.0), task="four", evaluations=4, hints=hints)
    assert taught.best.decision.time_us < 0.9 * without.best.decision.time_us


def test_hints_only_order_what_is_tried(store):
    wrong = [
        Hint(template="tiles", language="planted", configuration={"tile": 1, "unroll": 8}, cost=1.0, runs=9),
        Hint(
            template="tiles", language="planted", configuration={"tile": 999, "unroll": 1}, cost=1.0, runs=9
        ),
        Hint(template="tiles", language="planted", configuration={"other": 1}, cost=1.0, runs=9),
        Hint(
            template="another", language="planted", configuration={"tile": 2, "unroll": 1}, cost=1.0, runs=9
        ),
    ]
    _, misled = search(store, template(40.0), evaluations=128, hints=wrong)
    tried = [tuple(e.candidate.parameters.values()) for e in misled.evaluations]
    assert len(tried) == len(set(tried)) == 128
    assert misled.accepted and misled.best.candidate.parameters == {"tile": 29, "unroll": 4}


def test_failures_rank_last_and_a_near_device_counts_more(store):
    search(store, PlantedTemplate("tiles", SPACE, lambda c: None, {"tile": 1, "unroll": 1}), evaluations=3)
    search(store, template(40.0, at=5), task="there", device="gpu-1", evaluations=128)
    search(store, template(40.0, at=29), task="here", device="cpu-1", evaluations=128)
    hints = hints_of(store, begun(store))
    assert hints[0].configuration["tile"] > 17 and hints[0].runs == 2
    assert all(one.configuration != {"tile": 1, "unroll": 1} for one in hints)


def test_a_resumed_run_keeps_the_hints_it_began_with(store):
    search(store, template(40.0, at=5), evaluations=60)
    run = begun(store)
    first = hints_of(store, run)
    store.append_event(run.id, {"event": "hints", "hints": [one.model_dump(mode="json") for one in first]})
    search(store, template(40.0, at=29), task="later", evaluations=60)
    assert hints_of(store, run) == first != hints_of(store, begun(store, "afresh"))


def test_a_store_without_runs_teaches_nothing(store):
    assert hints_of(store, begun(store)) == ()
