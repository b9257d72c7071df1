"""The greedy sequence: a plan, drafts of its ideas, then what was evaluated is fixed or improved."""

import pytest

from kernelwright.errors import ModelError
from kernelwright.propose import Proposer, SourceTemplate
from kernelwright.propose.llm import LLMProposer
from kernelwright.testing import Refuses, ScriptedModel

from .conftest import KERNEL, evaluation
from .test_proposals import TEMPLATE

PLAN = '{"hypotheses": [{"idea": "idea one"}, {"idea": "idea two"}]}'


def code(number):
    return f"IDEA: number {number}\n```cpp\n{KERNEL}// {number}\n```"


def propose(request_of, script, history=(), **more):
    with ScriptedModel(script) as server:
        request = request_of(server.name(), history=history)
        found = list(LLMProposer(**more).propose(request))
    return found, server.asked


def test_it_plans_and_drafts_each_idea(request_of):
    found, asked = propose(request_of, [PLAN, code(1), TEMPLATE, code(3)], drafts=3)
    assert isinstance(LLMProposer(), Proposer) and len(found) == 3 and isinstance(found[1], SourceTemplate)
    assert "hypotheses" in asked[0].last
    assert (
        "Aim: idea one" in asked[1].last and "Aim: idea two" in asked[2].last and "Aim" not in asked[3].last
    )
    assert "number 1" in asked[2].last, "a draft is told what was drafted before"


def test_a_plan_that_cannot_be_read_costs_only_itself(request_of):
    found, asked = propose(request_of, ["no", "plan", code(1)], drafts=1)
    assert len(found) == 1 and len(asked) == 3


def test_what_fails_is_repaired_once_and_then_the_best_is_improved(request_of):
    broken = evaluation("broken", status="rejected", speedup=None)
    good, better = evaluation("good", speedup=1.1), evaluation("better", speedup=1.4)
    child = evaluation("child", speedup=0.9, parents=(better.candidate.key,), reason="unroll by 8")
    found, asked = propose(request_of, [PLAN, code(1)], history=(good, broken, better, child), drafts=0)
    assert "does not work" in asked[1].last and "broken" in asked[1].last
    assert "Make this candidate faster" in asked[2].last and "better" in asked[2].last
    assert "unroll by 8: slower" in asked[2].last
    assert sum("does not work" in one.last for one in asked) == 1 and found


def test_with_nothing_evaluated_it_ends_after_the_drafts(request_of):
    found, _ = propose(request_of, [PLAN, code(1), code(2)], drafts=2)
    assert len(found) == 2


def test_answers_of_no_use_end_it(request_of):
    with pytest.raises(ModelError, match=r"3 answers running were of no use; the last: .*cut down"):
        propose(request_of, [Refuses(400, "cut down")])


def test_without_a_model_it_says_so(request_of):
    with pytest.raises(ModelError, match="--model"):
        list(LLMProposer().propose(request_of()))


def test_a_resumed_run_drafts_the_same_for_nothing(request_of):
    with ScriptedModel([PLAN, code(1), code(2)]) as server:
        request = request_of(server.name())
        first = list(LLMProposer(drafts=2).propose(request))
        again = list(LLMProposer(drafts=2).propose(request))
    assert again == first and len(server.asked) == 3
