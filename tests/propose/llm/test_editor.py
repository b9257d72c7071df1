"""Moves against the scripted server: who is asked, with what, and what becomes of every kind of answer."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelwright.errors import MissingToolError, ModelError, SpentError
from kernelwright.llm import CallFailed
from kernelwright.propose import Editor, Move, SourceTemplate
from kernelwright.propose.llm import ROLES, LLMEditor
from kernelwright.propose.llm._prompts import Prompts
from kernelwright.testing import Refuses, Says, ScriptedModel

from .conftest import KERNEL, evaluation
from .test_proposals import TEMPLATE

CODE = f"IDEA: one loop\n```cpp\n{KERNEL}```"
FAULTY = evaluation("broken\n" + KERNEL, status="rejected", speedup=None)


def edit(request_of, script, move, **more):
    with ScriptedModel(script) as server:
        request = request_of(server.name(), **more)
        return LLMEditor().edit(move, request), server.asked


def test_it_is_an_editor_that_knows_its_operators():
    assert isinstance(LLMEditor(), Editor)
    wanted = {
        "draft",
        "improve",
        "repair",
        "merge",
        "plan",
        "critique",
        "read-profile",
        "read-build",
        "write-scripts",
        "summarise",
        "test",
    }
    assert set(LLMEditor.operators) == wanted == set(ROLES) - {"evolve"}
    assert {role.name for role in ROLES.values()} == set(Prompts().roles())


def test_a_model_whose_answers_cannot_be_used_is_not_asked_again(request_of):
    with ScriptedModel(["no code"] * 40) as server:
        request, editor = request_of(server.name()), LLMEditor()
        failures = [editor.edit(Move(n, "draft"), request).failure for n in range(4)]
        assert all("cannot be used" in failure for failure in failures)
        asked = len(server.asked)
        with pytest.raises(ModelError, match="is not asked again: its answers to 4 questions in a row"):
            editor.edit(Move(5, "draft"), request)
        assert len(server.asked) == asked


def test_another_model_of_the_run_is_asked_in_the_place_of_a_useless_one(request_of):
    with ScriptedModel(["no code"] * 40) as useless, ScriptedModel([CODE] * 9) as useful:
        request, editor = request_of(useless.name("a"), useful.name("b")), LLMEditor()
        for n in range(4):
            assert editor.edit(Move(n, "draft"), request).failure
        reply = editor.edit(Move(5, "draft"), request)
        assert reply.proposals and reply.notes["model"] == useful.name("b")
        again = editor.edit(Move(6, "draft", model=useless.name("a")), request)
        assert again.proposals, "also where a strategy asks for it by name"


def test_one_answer_that_can_be_used_begins_the_count_anew(request_of):
    with ScriptedModel(["no code"] * 6 + [CODE] + ["no code"] * 8) as server:
        request, editor = request_of(server.name()), LLMEditor()
        for n in range(7):
            editor.edit(Move(n, "draft"), request)
        assert len(server.asked) == 13


def test_a_draft(request_of):
    reply, (asked,) = edit(request_of, [CODE], Move(0, "draft", goal="be brave"))
    (one,) = reply.proposals
    assert one.sources[0].text == KERNEL and one.reason == "one loop" and reply.failure == ""
    assert "be brave" in asked.last and "torch.relu" in asked.text
    assert reply.notes["role"] == "coder" and reply.notes["prompt"] == Prompts().version("coder")


def test_a_template(request_of):
    reply, _ = edit(request_of, [TEMPLATE], Move(0, "draft"))
    assert isinstance(reply.proposals[0], SourceTemplate)


def test_improve_by_edits_and_merge_of_several(request_of):
    parent = evaluation()
    text = "<<<<<<< SEARCH\nKW_KERNEL(scaled) {\n=======\nKW_KERNEL(scaled) {  // better\n>>>>>>> REPLACE"
    reply, (asked,) = edit(request_of, [text], Move(3, "improve", parents=(parent,)))
    assert "// better" in reply.proposals[0].sources[0].text and "Make this candidate faster" in asked.last
    reply, (asked,) = edit(request_of, [CODE], Move(4, "merge", parents=(parent, FAULTY)))
    assert reply.proposals[0].parents == (parent.candidate.key, FAULTY.candidate.key)
    assert "joins what is best" in asked.last


def test_repair_shows_what_failed_and_the_change_that_broke_it(request_of):
    good = evaluation()
    bad = evaluation(KERNEL.replace("2 * x[i]", "3 * x[i]"), status="rejected", parents=(good.candidate.key,))
    reply, (asked,) = edit(request_of, [CODE], Move(1, "repair", parents=(bad,)), history=(good, bad))
    assert reply.notes["role"] == "debugger" and reply.proposals
    assert "+  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] > 0 ? 3 * x[i] : 0;" in asked.last


@pytest.mark.parametrize(
    ("operator", "answer"),
    [
        ("plan", {"hypotheses": [{"idea": "tile it", "why": "l2", "rating": 0.5, "difficulty": 2}]}),
        ("critique", {"critique": "reads twice", "bottleneck": "dram", "advice": "fuse", "rating": 0.25}),
        ("read-profile", {"bottleneck": "dram", "evidence": ["50%"], "advice": "stream"}),
        ("read-build", {"cause": "no such type", "lines": ["3"], "advice": "include it"}),
        ("write-scripts", {"build": "g++ -O3 k.cpp", "run": "./k", "why": "speed"}),
        ("test", {"correct": False, "risks": ["n = 1"]}),
        ("summarise", {"summary": "little", "lessons": ["a: b: c"]}),
    ],
)
def test_roles_that_answer_in_words(request_of, operator, answer):
    reply, (asked,) = edit(request_of, [json.dumps(answer)], Move(0, operator, parents=(evaluation(),)))
    assert {name: reply.notes[name] for name in answer} == answer and reply.proposals == ()
    assert asked.body["response_format"]["json_schema"]["schema"]["type"] == "object"


class TestRepairOfAnswers:
    def test_one_more_chance_with_the_exact_complaint(self, request_of):
        reply, (first, second) = edit(request_of, ["no code, sorry", CODE], Move(0, "draft"))
        assert reply.proposals and "holds no code" in second.last
        assert second.body["messages"][:3] == first.body["messages"]
        assert second.body["messages"][3] == {"role": "assistant", "content": "no code, sorry"}

    @pytest.mark.parametrize(
        ("answer", "complaint"),
        [
            ("", "empty"),
            (Says(f"```cpp\n{KERNEL}", stop="length"), "cut off"),
            ("```rust\nfn main() {}\n```", "in rust; expected cpp"),
            ("word " * 100_000, "much shorter"),
        ],
        ids=["empty", "truncated", "language", "huge"],
    )
    def test_twice_of_no_use_is_a_failure_in_one_line(self, request_of, answer, complaint):
        reply, asked = edit(request_of, [answer], Move(0, "draft"))
        assert reply.proposals == () and complaint in reply.failure and len(asked) == 2
        assert "\n" not in reply.failure
        assert len(asked[1].text) < 60_000, "a huge answer is not sent back whole"


class TestFailures:
    def test_a_server_that_refuses_is_a_failure(self, request_of):
        reply, _ = edit(request_of, [Refuses(400, "too long a prompt")], Move(0, "draft"))
        assert "too long a prompt" in reply.failure and reply.proposals == ()

    def test_a_wrong_key_is_the_users_to_repair(self, request_of):
        with pytest.raises(CallFailed, match="401"):
            edit(request_of, [Refuses(401)], Move(0, "draft"))

    def test_no_model_and_no_run(self, request_of):
        with pytest.raises(ModelError, match="--model"):
            LLMEditor().edit(Move(0, "draft"), request_of())
        with pytest.raises(ModelError, match="no run"):
            LLMEditor().edit(Move(0, "draft"), dataclasses.replace(request_of(), store=None))

    def test_a_missing_key(self, request_of, monkeypatch):
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(MissingToolError, match="OPENAI_API_KEY"):
            LLMEditor().edit(Move(0, "draft"), request_of("openai:gpt-5", usd=1.0))

    def test_an_interrupted_run_does_not_wait(self, request_of):
        reply, asked = edit(request_of, [CODE], Move(0, "draft"), cancelled=lambda: True)
        assert "given up" in reply.failure and asked == []


class TestMoney:
    PRICE = {"prices": ("10,100",)}

    def test_a_reply_says_what_it_cost_and_the_run_is_charged(self, request_of, spent):
        with ScriptedModel(["prose", CODE]) as server:
            request = request_of(server.name(), usd=5.0, options=self.PRICE)
            reply = LLMEditor().edit(Move(0, "draft"), request)
        once = (100 * 10 + 50 * 100) / 1e6
        assert reply.usd == pytest.approx(2 * once) == spent(request)

    def test_at_the_cap_nothing_is_asked(self, request_of, spent):
        with ScriptedModel([CODE]) as server:
            request = request_of(server.name(), usd=0.01, options=self.PRICE)
            with pytest.raises(SpentError, match=r"0\.0000 of 0\.0100 USD are spent"):
                LLMEditor().edit(Move(0, "draft"), request)
        assert server.asked == [] and spent(request) == 0.0

    def test_the_cap_between_answer_and_repair(self, request_of, spent):
        with ScriptedModel([Says("prose", output_tokens=40_000), CODE]) as server:
            request = request_of(server.name(), usd=5.0, options=self.PRICE)
            reply = LLMEditor(output_tokens=30_000).edit(Move(0, "draft"), request)
        assert "holds no code" in reply.failure and "are spent" in reply.failure and len(server.asked) == 1
        assert reply.usd == spent(request) <= 5.0

    def test_the_same_move_of_a_resumed_run_is_answered_from_the_ledger(self, request_of, spent):
        with ScriptedModel([CODE, "never"]) as server:
            request = request_of(server.name(), usd=5.0, options=self.PRICE)
            first = LLMEditor().edit(Move(7, "draft"), request)
            before = spent(request)
            again = LLMEditor().edit(Move(7, "draft"), request)
        assert again == first and spent(request) == before and len(server.asked) == 1

    def test_threads_share_one_cap(self, request_of, spent):
        with ScriptedModel([CODE]) as server:
            request = request_of(server.name(), usd=3.0, options=self.PRICE)
            editor = LLMEditor(output_tokens=8_000)

            def one(number):
                try:
                    return editor.edit(Move(number, "draft"), request).failure
                except SpentError:
                    return "spent"

            with ThreadPoolExecutor(6) as threads:
                outcomes = list(threads.map(one, range(12)))
        assert set(outcomes) <= {"", "spent"} and outcomes.count("") == len(server.asked)
        assert spent(request) <= 3.0


def test_a_move_may_name_another_model_of_the_run(request_of):
    with ScriptedModel([CODE]) as server:
        request = request_of(server.name("first"), server.name("second"))
        LLMEditor().edit(Move(0, "draft", model=server.name("second")), request)
        LLMEditor().edit(Move(1, "draft"), request)
    assert [asked.model for asked in server.asked] == ["second", "first"]


def test_the_run_says_how_long_an_answer_may_be(request_of):
    _, (asked,) = edit(request_of, [CODE], Move(0, "draft"), options={"output_tokens": 900})
    assert asked.body["max_tokens"] == 900
