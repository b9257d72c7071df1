"""Steps around an operator, with an editor that is scripted in Python."""

import pytest

from kernelwright.errors import InputError
from kernelwright.propose import Editor, Move, Reply
from kernelwright.propose.team import Steps, Team
from kernelwright.records import Candidate, SourceFile


def kernel(text: str) -> Candidate:
    return Candidate(sources=(SourceFile(path="k.py", text=text),), language="torch", entry="k.py:run")


class Scripted:
    name = "scripted"
    operators = ("draft", "improve", "critique", "test")

    def __init__(self, **answers):
        self.answers = answers
        self.moves = []

    def edit(self, move, request):
        self.moves.append(move)
        answer = self.answers[move.operator]
        return answer(move) if callable(answer) else answer


def drafts(move):
    return Reply(proposals=(kernel(f"draft {move.sample}"),), usd=1.0)


def test_without_steps_a_move_is_carried_out_as_it_is():
    editor = Scripted(draft=drafts)
    team = Team(editor, {})
    assert isinstance(team, Editor) and team.operators == editor.operators
    move = Move(3, "draft", goal="as it is")
    assert team.edit(move, None) == drafts(move)
    assert editor.moves == [move]


def test_a_step_that_the_editor_does_not_know_is_refused():
    with pytest.raises(InputError, match="'draft' asks for 'pray', which editor 'scripted' does not know"):
        Team(Scripted(), {"draft": Steps(first=("pray",))})


def test_words_go_on_to_the_operator_and_all_costs_are_counted():
    critique = Reply(notes={"critique": "slow", "advice": "tile"}, usd=0.5)
    editor = Scripted(draft=drafts, critique=critique)
    reply = Team(editor, {"draft": Steps(first=("critique",), hint="Be brief.")}).edit(
        Move(0, "draft", goal="G"), None
    )
    assert [m.operator for m in editor.moves] == ["critique", "draft"]
    assert editor.moves[1].goal == "G\nThe judge says: slow\nAdvice: tile\nBe brief."
    assert reply.usd == 1.5 and reply.notes["critique"] == "slow"


def test_a_role_that_fails_says_nothing_and_stops_nothing():
    editor = Scripted(draft=drafts, critique=Reply(failure="no answer", usd=0.25))
    reply = Team(editor, {"draft": Steps(first=("critique",))}).edit(Move(0, "draft", goal="G"), None)
    assert editor.moves[1].goal == "G" and reply.proposals and reply.failure == "" and reply.usd == 1.25


@pytest.mark.parametrize(("against", "passes"), [(0, True), (1, True), (2, False), (3, False)])
def test_most_of_the_readers_drop_a_proposal(against, passes):
    editor = Scripted(
        draft=drafts,
        test=lambda m: Reply(notes={"correct": m.sample >= against, "risks": ["n = 1"]}, usd=0.1),
    )
    reply = Team(editor, {"draft": Steps(read_by="test", votes=3)}).edit(Move(0, "draft"), None)
    assert bool(reply.proposals) is passes and ("n = 1" in reply.failure) is not passes
    assert reply.usd == pytest.approx(1.3)


@pytest.mark.parametrize(("against", "passes"), [(0, True), (2, True), (3, False)])
def test_one_look_by_which_most_find_it_wrong_drops_a_proposal(against, passes):
    editor = Scripted(
        draft=drafts,
        test=lambda m: Reply(notes={"correct": "bounds" not in m.goal or m.sample >= 4 + against}),
    )
    steps = Steps(read_by="test", looks=("types", "bounds"), votes=4)
    reply = Team(editor, {"draft": steps}).edit(Move(0, "draft", goal="G"), None)
    read = [(m.goal, m.sample) for m in editor.moves if m.operator == "test"]
    assert read == [(f"G\n{look}", 4 * i + n) for i, look in enumerate(("types", "bounds")) for n in range(4)]
    assert bool(reply.proposals) is passes


def test_readers_that_fail_have_no_vote():
    editor = Scripted(draft=drafts, test=Reply(failure="down"))
    assert Team(editor, {"draft": Steps(read_by="test", votes=3)}).edit(Move(0, "draft"), None).proposals


def test_samples_follow_thoughts_in_turn_and_the_best_rated_go_on():
    rating = {"draft 0": 0.2, "draft 1": 0.9, "draft 2": 0.5}
    editor = Scripted(
        draft=drafts,
        critique=lambda m: Reply(notes={"rating": rating[m.parents[0].candidate.sources[0].text]}),
    )
    steps = Steps(samples=3, thoughts=("first", "second"), read_by="critique", keep=2)
    reply = Team(editor, {"draft": steps}).edit(Move(0, "draft"), None)
    assert [m.goal for m in editor.moves if m.operator == "draft"] == ["first", "second", "first"]
    assert [p.sources[0].text for p in reply.proposals] == ["draft 1", "draft 2"]


def test_the_same_proposal_twice_is_one():
    editor = Scripted(draft=Reply(proposals=(kernel("same"),)))
    assert len(Team(editor, {"draft": Steps(samples=2)}).edit(Move(0, "draft"), None).proposals) == 1


def test_where_nothing_was_proposed_the_first_failure_is_told():
    editor = Scripted(draft=Reply(failure="garbage"))
    assert Team(editor, {"draft": Steps(samples=2)}).edit(Move(0, "draft"), None).failure == "garbage"


def test_a_toolchains_flags_are_the_proposals_and_its_scripts_are_noted():
    def written(move):
        (shown,) = move.parents
        return Reply(
            notes={"build": "g++ -O2 -ffast-math -fPIC -o k.so k.cpp", "run": shown.candidate.key}, usd=0.5
        )

    made = kernel("void k() {}").model_copy(update={"language": "cpp", "flags": ("-O2",)})
    editor = Scripted(draft=Reply(proposals=(made,), usd=1.0), test=written)
    reply = Team(editor, {"draft": Steps(built_by="test")}).edit(Move(0, "draft"), None)
    (one,) = reply.proposals
    assert one.flags == ("-O2", "-ffast-math") and reply.usd == 1.5
    assert reply.notes["scripts"][one.key]["run"] == made.key
    python = Scripted(draft=drafts, test=written)
    reply = Team(python, {"draft": Steps(built_by="test")}).edit(Move(0, "draft"), None)
    assert reply.proposals == (kernel("draft 0"),), "Python has no flags"
