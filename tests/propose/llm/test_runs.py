"""Whole runs on the scripted server: found, paid for, cut off, killed, resumed, and without any model."""

import json
import os
import re
import signal
import threading
from contextlib import contextmanager

import pytest

import kernelwright as kw
from kernelwright import flow
from kernelwright.errors import InputError, MissingToolError
from kernelwright.records import Budget, DecisionStatus, RunStatus
from kernelwright.search.proposals import _proposals
from kernelwright.search.session import _choices, _packaging, _search
from kernelwright.store import Calls, Store
from kernelwright.testing import (
    PlantedJudge,
    PlantedLanguage,
    Refuses,
    Says,
    ScriptedModel,
    planted_candidate,
)

from .conftest import KERNEL

TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def scaled(x):
    return x * 2
"""
PLAN = '{"hypotheses": [{"idea": "idea one"}]}'
KEY = "sk-planted-in-the-environment-0123456789"


def code(time_us, fault=""):
    return f"IDEA: in {time_us} us\n```cpp\n{KERNEL}// {time_us} {fault}\n```"


class Judge(PlantedJudge):
    """Reads a candidate's truth from its last comment."""

    def _evaluation(self, candidate, build, *rest):
        told = re.findall(r"// (\d+) (\w*)$", candidate.sources[0].text, re.MULTILINE)
        time_us, fault = told[-1] if told else (200, "")
        found = super()._evaluation(planted_candidate(float(time_us), fault=fault), build, *rest)
        update = {"candidate": candidate.key}
        return found.model_copy(
            update={
                "candidate": candidate,
                "verdict": found.verdict.model_copy(update=update),
                "decision": found.decision.model_copy(update=update),
            }
        )


class World:
    """A real run with a planted judge and language; the model is real up to the wire."""

    def __init__(self, folder):
        self.file, self.store = folder / "scaled.py", folder / "store"
        self.file.write_text(TASK)
        self.judge, self.events = Judge(), []

    @contextmanager
    def open_judge(self, setting, problem, bounds):
        yield self.judge

    def optimize(
        self, *models, proposers=("llm",), editors=(), strategy="", evaluations=3, usd=None, **options
    ):
        return kw.optimize(
            self.file,
            budget=Budget(evaluations=evaluations, usd=usd),
            languages=("cpp",),
            proposers=proposers,
            editors=editors,
            strategy=strategy,
            learn=False,
            more={"models": models, "counters": False, **options},  # what is planted has nothing to count
            store=self.store,
            on_event=self.events.append,
        )

    def resume(self):
        return flow.resume("last", store=self.store, on_event=self.events.append)

    def said(self, event="proposer"):
        return [e.data["message"] for e in self.events if e.event == event]


class Cpp(PlantedLanguage):
    name = "cpp"


def propose_with(monkeypatch, make):
    for module in (_choices, _proposals):
        monkeypatch.setattr(module, "make_proposers", make)


@pytest.fixture
def world(monkeypatch, tmp_path):
    world = World(tmp_path)
    language = Cpp()
    for module in (_choices, _search):
        monkeypatch.setattr(module, "get_language", lambda name: language)
    monkeypatch.setattr(_proposals, "PROPOSERS", ("start", "library"))  # the compiler takes its time
    monkeypatch.setattr(flow, "open_judge", world.open_judge)
    monkeypatch.setattr(_packaging, "package_accepted", lambda task, run, accepted, folder, about: folder)
    return world


def test_a_model_finds_the_best_and_it_is_accepted(world):
    with ScriptedModel([PLAN, code(80), code(40), code(90, "verify"), code(95)]) as server:
        result = world.optimize(server.name())
    assert result.decision is DecisionStatus.IMPROVED and result.speedup.median == 2.5
    assert (result.usd, result.failures) == (0.0, {"correct": 1})
    with Store(world.store) as store:
        reasons = {e.candidate.reason for e in store.evaluations(result.run)}
    assert reasons == {"in 80 us", "in 40 us", "in 90 us"}
    with Calls(world.store) as calls:
        assert "idea one" in str(calls.transcript(result.run)[0]["reply"])


def test_what_was_evaluated_is_told_to_the_model(world):
    with ScriptedModel([PLAN, code(80), code(70), code(60), code(50), code(45)]) as server:
        world.optimize(server.name(), evaluations=6)
    improved = [asked for asked in server.asked if "Make this candidate faster" in asked.last]
    told = re.search(r"(\d\.\d\d) \(\d\.\d\d to \d\.\d\d\) times the speed of eager", improved[0].last)
    assert told and float(told[1]) in {round(100 / time_us, 2) for time_us in (80, 70, 60, 50, 45)}


def test_without_a_model_those_that_need_none_go_on_with_one_message(world):
    result = world.optimize()
    first, second = world.said()
    assert "name one with --model" in first and "going on with start, library, which need none" in second
    assert result.evaluations > 0


def test_others_are_not_called_twice_where_one_of_them_has_proposed(world, monkeypatch):
    class Other:
        name = "other"

        def propose(self, request):
            yield planted_candidate(50.0, language="cpp").model_copy(
                update={
                    "sources": (planted_candidate(50.0).sources[0].model_copy(update={"text": "// 50 "}),)
                }
            )

    made = _proposals.make_proposers
    propose_with(monkeypatch, lambda names: [Other() if n == "other" else made([n])[0] for n in names])
    result = world.optimize(proposers=("llm", "other"))
    assert result.speedup.median == 2.0
    (said,) = world.said()
    assert "--model" in said


def test_where_nobody_proposes_anything_the_result_says_who_was_asked(world, monkeypatch):
    class Foreign:
        name = "foreign"

        def propose(self, request):
            yield planted_candidate(50.0, language="cuda")

    made = _proposals.make_proposers
    propose_with(monkeypatch, lambda names: [Foreign() if n == "foreign" else made([n])[0] for n in names])
    result = world.optimize(proposers=("start", "foreign"))
    assert world.said() == ["start, foreign had nothing for this task in cpp"]
    assert result.reason == f"nothing was evaluated: {world.said()[0]}"
    with Store(world.store) as store:
        assert store.result(result.run)["reason"] == result.reason


@pytest.mark.parametrize(
    "script",
    [[Refuses(400, "the model is not loaded")], [Refuses(401, "who are you")], ["garbage that is no code"]],
    ids=["refused", "wrong key", "garbage"],
)
def test_a_model_that_is_of_no_use_does_not_end_the_run(world, script):
    with ScriptedModel(script) as server:
        result = world.optimize(server.name())
    assert (
        result.evaluations > 0
        and "llm has nothing more" in world.said()[0]
        and "going on with" in world.said()[1]
    )


def test_where_an_editor_brings_nothing_those_that_need_no_model_go_on(world):
    with ScriptedModel([Refuses(400, "the model is not loaded")]) as server:
        alone = world.optimize(server.name(), proposers=("start",), editors=("llm",), instead=False)
        result = world.optimize(server.name(), proposers=("start",), editors=("llm",))
    assert alone.evaluations == 0 < result.evaluations and len(server.asked) <= 24
    assert "the editors bring nothing; going on with library, which need no model" in world.said()


def test_where_an_editor_brought_something_nobody_stands_in(world):
    script = [code(80), Refuses(401, "no credit left")]
    with ScriptedModel(script) as server:
        result = world.optimize(
            server.name(), proposers=("start",), editors=("llm",), strategy="greedy", evaluations=9
        )
    assert result.evaluations == 1 and not any("going on" in said for said in world.said())


def test_while_the_model_is_busy_those_that_need_none_go_on(world):
    with ScriptedModel([Refuses(503, "overloaded")]) as server:
        result = world.optimize(server.name(), evaluations=1, retries=1000)
    assert result.evaluations == 1
    first, second = world.said()[:2]
    assert "llm asks again" in first and "meanwhile start, library go on" in second


def test_an_unknown_price_or_a_missing_key_refuses_before_anything_is_done(world, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(InputError, match="--price"):
        world.optimize("openai:no-such-model", usd=1.0)
    with pytest.raises(InputError, match="--usd"):
        world.optimize("openai:gpt-5")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(MissingToolError, match="OPENAI_API_KEY"):
        world.optimize("openai:gpt-5", usd=1.0)
    assert not world.store.exists()


def test_at_the_cap_the_run_ends_with_what_it_has(world):
    price = {"prices": ("10,100",)}  # a call of 100 and 50 tokens costs 0.6 cents, and may cost 1.7 USD

    def script(asked):
        return PLAN if "hypotheses" in asked.last else Says(code(80 - len(server.asked)), output_tokens=5000)

    with ScriptedModel(script) as server:
        result = world.optimize(server.name(), usd=2.8, evaluations=20, **price)
    assert result.decision is DecisionStatus.IMPROVED and 0 < result.usd <= 2.8
    assert 2 <= len(server.asked) <= 4 and "USD are spent" in world.said()[0]


def test_killed_and_resumed_nothing_is_lost_and_nothing_paid_twice(world):
    class Dying(Judge):
        def screen(self, candidate, build, **limits):
            if self.screened:
                raise KeyboardInterrupt
            return super().screen(candidate, build, **limits)

    def script(asked):
        return PLAN if "hypotheses" in asked.last else code(80 - len(server.asked))

    with ScriptedModel(script) as server:
        honest, world.judge = world.judge, Dying()
        with pytest.raises(KeyboardInterrupt):
            world.optimize(server.name(), usd=5.0, prices=("1,2",))
        with Store(world.store) as store, Calls(world.store) as calls:
            run = store.run("last").id
            before = calls.spent_usd(run)
        world.judge = honest
        result = world.resume()
    assert result.run == run and result.evaluations == 3 and result.decision is DecisionStatus.IMPROVED
    with Calls(world.store) as calls:
        purposes = [call.purpose for call in calls.of_run(run)]
    assert len(purposes) == len(server.asked) == len(set(purposes)), "no question is asked twice"
    assert result.usd >= before > 0


@pytest.fixture
def interruptible():
    """Where tests run side by side, their processes ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupted_in_mid_call_only_that_question_is_asked_again(world):
    over = threading.Event()

    def script(asked):
        number = len(server.asked)
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
            over.wait(60)
        return code(90 - number).replace("```cpp\n", f"```cpp\nconstexpr int kTile = {number};\n")

    search = {"proposers": (), "editors": ("llm",), "strategy": "best_of", "edits": 1, "prices": ("1,2",)}
    with ScriptedModel(script) as server:
        with pytest.raises(KeyboardInterrupt):
            world.optimize(server.name(), usd=5.0, evaluations=4, **search)
        with Store(world.store) as store, Calls(world.store) as calls:
            run = store.run("last")
            before = {e.candidate.key for e in store.evaluations(run.id)}
            assert run.status is RunStatus.INTERRUPTED and len(before) == 2
            given_up = calls.of_run(run.id)[2]
            assert given_up.usd == given_up.reserved_usd > 0, "nobody knows whether it was billed"
            assert not [thread for thread in threading.enumerate() if thread.name.startswith("edit-")]
        result = world.resume()
        over.set()
    questions = [asked.text for asked in server.asked]
    assert len(questions) == 5 and questions[2] == questions[3] and len(set(questions)) == 4
    with Store(world.store) as store, Calls(world.store) as calls:
        assert before <= {e.candidate.key for e in store.evaluations(run.id)} and result.evaluations == 4
        settled = [call for call in calls.of_run(run.id) if call.usage]
    assert len(settled) == 4, "each answer is paid for once"


def test_the_key_is_nowhere_but_on_its_way_to_the_provider(world, monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def leaky(asked):
        number = len(server.asked)
        if number == 2:
            return Refuses(400, f"key {KEY} is not allowed this")
        return Says(f"// your key is {KEY}\n" + code(80 - number)) if number > 1 else PLAN

    with ScriptedModel(leaky) as server:
        result = world.optimize(f"openai:m@{server.url}/v1", usd=5.0, prices=("1,2",), note="plain words")
        assert any(KEY in str(asked.headers) for asked in server.asked), "the provider was sent it"
        assert not any(KEY in asked.text for asked in server.asked)
    from kernelwright.cli import main

    page = tmp_path / "report.html"
    assert main(["report", result.run, "--store", str(world.store), "--to", str(page)]) == 0
    assert main(["show", result.run, "--store", str(world.store), "--json"]) == 0
    kept = {path: path.read_bytes() for path in [page, *world.store.rglob("*")] if path.is_file()}
    with Calls(world.store) as calls:  # long texts lie in pieces in the database's file
        kept["transcript"] = json.dumps(calls.transcript(result.run)).encode()
    assert b"plain words" in kept["transcript"]
    assert len(kept) > 3 and not [path for path, data in kept.items() if KEY.encode() in data]
    assert KEY not in "".join(event.line() for event in world.events) and KEY not in str(capfd.readouterr())
