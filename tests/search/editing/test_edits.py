"""Moves under way: what is asked, carried out in threads, kept, handed over, and never paid for twice."""

import threading

import pytest

from kernelwright.devices import Device
from kernelwright.errors import InputError, SpentError
from kernelwright.propose import Reply, Request, SourceTemplate
from kernelwright.records import Budget, Parameter, SourceFile, Space
from kernelwright.search.editing._edits import Edits, EditServices
from kernelwright.search.evaluation._evaluation import Evaluator
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.proposals._scheduler import Scheduler
from kernelwright.search.run._budget import Meter
from kernelwright.search.session._session import Session
from kernelwright.search.strategies import Means, make_strategy
from kernelwright.search.tuners import make_tuner
from kernelwright.store import Journal, Store
from kernelwright.testing import (
    PlantedJudge,
    PlantedLandscape,
    PlantedLanguage,
    planted_candidate,
    planted_task,
)

CPU = Device(kind="cpu", name="any", cores=1, memory_bytes=1, torch_device="cpu")
LONG_S = 60.0


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


class Rig:
    """One planted run with a strategy and an editor."""

    def __init__(
        self, store, editor, *, strategy="evolve", seeds=(), run=None, width=3, judge=None, evaluations=20
    ):
        self.store, self.editor, self.events = store, editor, []
        self.judge = judge or PlantedJudge()
        budget = Budget(evaluations=evaluations)
        self.run = run or store.create_run(planted_task(), device="cpu-1", budget=budget, seed=3)
        self.meter = Meter(self.run.budget, store.spent(self.run.id))
        self.languages = {"planted": PlantedLanguage()}
        self.evaluator = Evaluator(self.run, store, self.judge, self.languages, self.meter)
        self.strategy = make_strategy(strategy, Means(seed=3, operators=tuple(editor.operators)))
        self.seeds, self.width = seeds, width

    def room(self, under_way):
        return self.meter.evaluations + under_way < self.run.budget.evaluations

    def go(self):
        request = Request(None, CPU, (), ("planted",), seed=3)
        services = EditServices([self.editor], request, self.width, self.room, lambda: LONG_S, self.emit)
        journal = Journal(self.store.folder, self.run.id)
        with (
            Edits(
                self.strategy, services, journal, self.evaluator.evaluations, self.evaluator.workloads
            ) as edits,
            Builder(self.languages, width=2) as builder,
        ):
            scheduler = Scheduler(iter(self.seeds), lambda s: make_tuner("local", s, 3), edits)
            session = Session(scheduler, builder, self.evaluator, self.meter, self.emit)
            self.outcome = session.run()
        return self.outcome

    def emit(self, event, **data):
        self.events.append((event, data))

    def journal(self, kind):
        journal = Journal(self.store.folder, self.run.id)
        entries = [e for e in journal.entries() if e.kind == kind]
        journal.close()
        return entries


class Scripted:
    """Brings what it is told to, move by move; then fails."""

    name, operators = "scripted", ("draft", "improve", "repair", "merge")

    def __init__(self, *replies):
        self.replies, self.moves, self.requests = replies, [], []

    def edit(self, move, request):
        self.moves.append(move)
        self.requests.append(request)
        return self.replies[move.number] if move.number < len(self.replies) else Reply(failure="out of ideas")


def brings(*proposals, **more):
    return Reply(proposals=proposals, **more)


def test_a_strategy_and_an_editor_find_what_no_proposer_proposed(store):
    rig = Rig(store, PlantedLandscape(1), seeds=[planted_candidate(95.0)], evaluations=40)
    outcome = rig.go()
    assert outcome.accepted and outcome.best.decision.time_us < 60.0
    built = [e for e in outcome.evaluations if e.build.status == "ok"]
    assert rig.meter.evaluations == 40 and len(rig.judge.screened) == len(built)


def test_starts_are_evaluated_before_anything_is_asked(store):
    editor = Scripted(brings(planted_candidate(40.0)))
    rig = Rig(
        store,
        editor,
        strategy="greedy",
        seeds=[planted_candidate(90.0), planted_candidate(80.0)],
        evaluations=4,
    )
    rig.go()
    assert editor.moves[0].parents[0].decision.time_us == 80.0
    assert [len(r.history) for r in editor.requests[:1]] == [2]
    assert editor.moves[1].parents[0].decision.time_us == 40.0


def test_moves_are_under_way_at_once_and_no_more_than_so_many(store):
    both = threading.Barrier(2)

    class Meeting(PlantedLandscape):
        most = under_way = 0

        def edit(self, move, request=None):
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            if move.number < 2:
                both.wait(LONG_S)
            reply = super().edit(move, request)
            self.under_way -= 1
            return reply

    editor = Meeting(1)
    Rig(store, editor, strategy="best_of", width=2, evaluations=6).go()
    assert editor.most == 2


def test_edits_go_on_while_candidates_are_evaluated(store):
    """The judge waits for the next edit to begin: it would wait for ever if they took turns."""
    second = threading.Event()

    class Watching(PlantedJudge):
        def screen(self, candidate, build, **limits):
            assert second.wait(LONG_S)
            return super().screen(candidate, build, **limits)

    class Telling(PlantedLandscape):
        def edit(self, move, request=None):
            if move.number == 1:
                second.set()
            return super().edit(move, request)

    rig = Rig(store, Telling(2, faults=0.0), strategy="best_of", width=2, judge=Watching(), evaluations=3)
    assert len(rig.go().evaluations) == 3


def test_replies_are_taken_in_the_order_of_the_moves_whatever_comes_first(store, tmp_path):
    def evaluated(folder, reverse):
        later = threading.Event()

        class Racing(PlantedLandscape):
            def edit(self, move, request=None):
                if reverse and move.number == 0:
                    assert later.wait(LONG_S)
                if move.number == 1:
                    later.set()
                return super().edit(move, request)

        with Store(folder) as other:
            rig = Rig(other, Racing(4), strategy="best_of", width=2, evaluations=5)
            return [e.candidate.key for e in rig.go().evaluations]

    assert evaluated(tmp_path / "one", True) == evaluated(tmp_path / "two", False)


def test_templates_of_an_editor_become_arms_and_are_tuned(store):
    template = SourceTemplate(
        name="tiles", language="planted", entry="planted.txt:run", first={"us": 90.0},
        space=Space(parameters=(Parameter(name="us", values=(90.0, 70.0, 30.0, 50.0)),)),
        sources=(SourceFile(path="planted.txt", text="@us@ "),),
    )  # fmt: skip
    rig = Rig(store, Scripted(brings(template)), strategy="greedy", evaluations=8)
    outcome = rig.go()
    assert outcome.best.decision.time_us == 30.0 and len(outcome.evaluations) == 4
    told = {e.record["candidate"]: e.number for e in rig.journal("tell")}
    assert set(told.values()) == {0}, "all configurations are told as of the move that brought the template"


def test_what_is_the_same_is_neither_evaluated_again_nor_asked_for_again(store):
    first = planted_candidate(50.0).model_copy(update={"reason": "tiles of 8"})
    same = first.model_copy(update={"sources": (SourceFile(path="planted.txt", text="50.0   // again\n"),)})
    rig = Rig(store, Scripted(brings(first), brings(same), brings(first)), strategy="best_of", width=1)
    rig.go()
    assert rig.judge.screened == [first.key]
    heard = [e.record for e in rig.journal("heard")]
    assert [h["kept"] for h in heard[:3]] == [[first.key], [], []]
    assert all(first.key in h["failure"] for h in heard[1:3])
    tried = [move.tried for move in rig.editor.moves]
    assert tried[0] == () and tried[1] == ("tiles of 8: 2.00 times native",)
    assert any("tried before" in line for line in tried[2])


def test_candidates_in_a_language_that_is_not_used_are_failures(store):
    rig = Rig(store, Scripted(brings(planted_candidate(10.0, language="other"))), strategy="greedy")
    assert rig.go().best is None
    assert "other cannot be used" in rig.journal("heard")[0].record["failure"]


def test_editors_that_bring_nothing_end_the_edits_and_not_the_run(store):
    rig = Rig(store, Scripted(), strategy="best_of", seeds=[planted_candidate(60.0)], evaluations=99)
    assert rig.go().accepted
    assert len(rig.editor.moves) < 30
    assert "nothing new" in dict(rig.events)["edits"]["message"]


def test_money_that_is_spent_ends_the_edits_and_not_the_run(store):
    class Broke(Scripted):
        def edit(self, move, request):
            if move.number == 1:
                raise SpentError("0.00 USD are left; raise --usd")
            return super().edit(move, request)

    rig = Rig(
        store, Broke(brings(planted_candidate(50.0))), strategy="greedy", seeds=[planted_candidate(60.0)]
    )
    assert rig.go().best.decision.time_us == 50.0
    assert "raise --usd" in dict(rig.events)["edits"]["message"]


class Dying(PlantedJudge):
    """Interrupted while it screens the nth candidate."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def screen(self, candidate, build, **limits):
        if len(self.screened) == self.at:
            raise KeyboardInterrupt
        return super().screen(candidate, build, **limits)


@pytest.mark.parametrize("strategy", ["evolve", "uct", "world_model"])
def test_resumes_after_any_candidate_without_losing_or_repeating_an_edit(tmp_path, strategy):
    with Store(tmp_path / "whole") as store:
        whole = Rig(
            store, PlantedLandscape(3), strategy=strategy, seeds=[planted_candidate(95.0)], evaluations=12
        )
        wanted = [e.candidate.key for e in whole.go().evaluations]
    for at in range(0, 9, 2):
        with Store(tmp_path / str(at)) as store:
            broken = Rig(
                store, PlantedLandscape(3), strategy=strategy, seeds=[planted_candidate(95.0)], judge=Dying(at),
                evaluations=12,
            )  # fmt: skip
            assert broken.go().stopped_by == "interrupted"
            again = Rig(
                store, PlantedLandscape(3), strategy=strategy, seeds=[planted_candidate(95.0)], run=broken.run,
                evaluations=12,
            )  # fmt: skip
            found = [e.candidate.key for e in again.go().evaluations]
            assert found == wanted, f"interrupted at {at}"
            paid = [m.number for m in (*broken.editor.asked, *again.editor.asked)]
            assert sorted(paid) == sorted(set(paid)), "no edit twice"


def test_a_reply_that_came_before_the_kill_is_not_asked_for_again(store):
    """Killed with a reply on disk that nobody had taken yet, and a move without one."""
    rig = Rig(store, Scripted(), strategy="best_of", width=2)
    journal = Journal(store.folder, rig.run.id)
    for number in range(2):
        move = {
            "number": number,
            "operator": "draft",
            "parents": [],
            "inspirations": [],
            "goal": "",
            "model": "",
        }
        journal.add("ask", number, move)
    journal.add("reply", 1, brings(planted_candidate(40.0), usd=0.5).model_dump(mode="json"))
    journal.close()
    rig.go()
    assert 1 not in [m.number for m in rig.editor.moves] and rig.editor.moves[0].number == 0
    assert rig.outcome.best.decision.time_us == 40.0


def test_another_strategy_does_not_take_a_run_up(store):
    first = Rig(store, PlantedLandscape(3), strategy="best_of", judge=Dying(2))
    first.go()
    with pytest.raises(InputError, match="start a new run"):
        Rig(store, PlantedLandscape(3), strategy="greedy", run=first.run).go()


def test_a_few_threads_carry_all_moves_out(store):
    class Noting(PlantedLandscape):
        def edit(self, move, request=None):
            names.append(threading.current_thread().name)
            return super().edit(move, request)

    names = []
    Rig(store, Noting(1), width=2).go()
    assert len(names) > 4 and set(names) <= {"edit-0", "edit-1"}


def test_an_interrupt_cancels_what_is_under_way_and_keeps_what_still_comes(store):
    class Patient(PlantedLandscape):
        def edit(self, move, request=None):
            if move.number == 0:
                return super().edit(move, request)
            while not request.cancelled():
                cancelled.wait(0.01)
            return super().edit(move, request)

    cancelled = threading.Event()
    rig = Rig(store, Patient(1, faults=0.0), strategy="best_of", width=2, judge=Dying(0))
    assert rig.go().stopped_by == "interrupted"
    assert [e.number for e in rig.journal("reply")] == [0, 1]
    assert not any(thread.name.startswith("edit-") for thread in threading.enumerate())


def test_a_move_given_up_on_an_interrupt_is_carried_out_again_when_the_run_is_taken_up(store):
    class GivesUp(PlantedLandscape):
        def edit(self, move, request=None):
            if move.number == 0:
                return super().edit(move, request)
            while not request.cancelled():
                waiting.wait(0.01)
            return Reply(failure="given up")

    waiting = threading.Event()
    first = Rig(store, GivesUp(1, faults=0.0), strategy="best_of", width=2, judge=Dying(0))
    assert first.go().stopped_by == "interrupted"
    assert [e.number for e in first.journal("reply")] == [0]
    again = PlantedLandscape(1, faults=0.0)
    Rig(store, again, strategy="best_of", width=2, run=first.run).go()
    assert 1 in [move.number for move in again.asked]
