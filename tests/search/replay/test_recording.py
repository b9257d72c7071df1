"""A recorded run replayed: what other strategies would have found in it, and the command."""

import json
from functools import partial

import pytest

from kernelwright.cli import main
from kernelwright.devices import Device
from kernelwright.errors import InputError, NotFoundError
from kernelwright.propose import Move, Request
from kernelwright.records import Budget
from kernelwright.search.editing._edits import Edits, EditServices
from kernelwright.search.evaluation._evaluation import Evaluator
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.proposals._scheduler import Scheduler
from kernelwright.search.replay.recording import Recording, Replay, rehearse
from kernelwright.search.replay.serial import serial_search
from kernelwright.search.run._budget import Meter
from kernelwright.search.session._session import Session
from kernelwright.search.strategies import Means, make_strategy
from kernelwright.store import Journal, Store
from kernelwright.testing import (
    PlantedJudge,
    PlantedLandscape,
    PlantedLanguage,
    planted_candidate,
    planted_task,
)

CPU = Device(kind="cpu", name="any", cores=1, memory_bytes=1, torch_device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store with one planted run of 40 evaluations."""
    folder = tmp_path_factory.mktemp("recorded")
    with Store(folder) as store:
        run = store.create_run(planted_task(), device="cpu-1", budget=Budget(evaluations=40), seed=5)
        meter = Meter(run.budget, store.spent(run.id))
        languages = {"planted": PlantedLanguage()}
        evaluator = Evaluator(run, store, PlantedJudge(), languages, meter)
        landscape = PlantedLandscape(1)
        services = EditServices(
            [landscape], Request(None, CPU, (), ("planted",)), 1,
            lambda under_way: meter.evaluations + under_way < 40, lambda: 60.0, lambda event, **data: None,
        )  # fmt: skip
        strategy = make_strategy("evolve", Means(5, landscape.operators))
        journal = Journal(folder, run.id)
        with (
            Edits(strategy, services, journal, evaluator.evaluations, ()) as edits,
            Builder(languages, width=1) as builder,
        ):
            scheduler = Scheduler(iter([planted_candidate(95.0)]), lambda space: None, edits)
            Session(scheduler, builder, evaluator, meter, services.emit).run()
        store.create_run(planted_task("plain"), device="cpu-1", budget=Budget(), seed=0)
    return folder


@pytest.fixture
def recording(folder):
    with Store(folder) as store:
        (run,) = [r for r in store.runs() if r.task_name == "planted"]
        return Recording.load(store, run.id)


def test_everything_that_was_proposed_and_found_is_on_record(recording):
    assert len(recording.evaluations) == 40 and len(recording.starts) == 1
    assert {"draft", "improve", "merge"} <= set(recording.operators)
    assert recording.steps[0].parents == (planted_candidate(95.0).key,)
    assert sum(step.reply.usd for step in recording.steps) == pytest.approx(0.01 * len(recording.steps))


def test_the_strategy_that_was_recorded_replays_itself_exactly(recording):
    replay = Replay(recording, seed=0)
    strategy = make_strategy("evolve", Means(5, PlantedLandscape.operators))
    again = serial_search(strategy, replay.edit, recording.evaluate, evaluations=40, starts=recording.starts)
    assert {one.key for one in again.found} == set(recording.evaluations)
    assert replay.answers["near"] == replay.answers["none"] == 0


def test_nothing_is_found_that_was_not_recorded_and_nothing_twice(recording):
    for name in ("best_of", "greedy", "uct"):
        replay = Replay(recording, seed=1)
        strategy = make_strategy(name, Means(1, recording.operators))
        found = serial_search(
            strategy, replay.edit, recording.evaluate, evaluations=99, starts=recording.starts
        ).found
        keys = [one.key for one in found]
        assert set(keys) <= set(recording.evaluations) and len(keys) == len(set(keys))


def test_the_nearest_answer_is_given_and_counted(recording):
    replay = Replay(recording, seed=0)
    step = next(s for s in recording.steps if s.operator == "improve" and s.reply.proposals)
    parent = recording.evaluations[step.parents[0]]
    wanted = [
        s.reply for s in recording.steps if s.operator == "improve" and s.parents[:1] == step.parents[:1]
    ]
    assert replay.edit(Move(number=0, operator="improve", parents=(parent,))) in wanted
    childless = next(
        e for k, e in recording.evaluations.items() if all(k not in s.parents for s in recording.steps)
    )
    assert replay.edit(Move(number=1, operator="improve", parents=(childless,))).proposals
    assert replay.answers == {"exact": 1, "near": 1, "none": 0}
    assert (
        "no draft left" in [replay.edit(Move(number=n, operator="draft")) for n in range(2, 60)][-1].failure
    )


def test_more_evaluations_find_more_and_seeds_repeat(recording):
    made = partial(make_strategy, "evolve")
    few, many, again = (rehearse(recording, made, evaluations=n, seeds=6) for n in (5, 40, 40))
    assert many == again
    assert sum(few.fractions) < sum(many.fractions) <= 6.0
    assert many.quantile(1.0) <= 1.0 and 0 < many.exact <= 1 and many.usd > few.usd


def test_command_compares_strategies_for_nothing(folder, recording, capsys):
    arguments = [
        "simulate",
        recording.name,
        "--store",
        str(folder),
        "--strategy",
        "evolve",
        "--strategy",
        "best_of",
    ]
    assert main([*arguments, "--seeds", "3", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("strategy") for line in lines] == ["evolve", "best_of", None]
    assert lines[-1]["event"] == "result" and lines[-1]["evaluations"] == 20 and lines[-1]["recorded"] == 40
    assert set(lines[0]["fraction_of_best"]) == {"median", "low", "high"}
    assert main([*arguments, "--seeds", "1"]) == 0
    assert "best_of" in capsys.readouterr().out


def test_runs_without_edits_and_unknown_names_are_refused(folder, recording):
    with Store(folder) as store:
        (plain,) = [r for r in store.runs() if r.task_name == "plain"]
        with pytest.raises(InputError, match="--editor"):
            Recording.load(store, plain.id)
        with pytest.raises(NotFoundError):
            Recording.load(store, "nosuch")
    assert main(["simulate", recording.name, "--store", str(folder), "--strategy", "nosuch"]) == 2
