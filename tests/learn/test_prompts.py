"""What came of moves, read from journals that were written by hand."""

from contextlib import closing

import pytest

from kernelwright.learn.prompts import (
    ENOUGH,
    Evolution,
    Moves,
    Outcomes,
    Version,
    begin,
    keep_guidance,
    outcomes_of,
)
from kernelwright.records import Budget
from kernelwright.store import Entry, Journal, Store
from kernelwright.testing import planted_task


def move(number, *scores, parent="start", version="v", role="coder", failure=""):
    """The lines of one move that brought candidates with those scores, or words where there are none."""
    keys = [f"{number}-{i}" for i in range(len(scores))]
    return [
        Entry("ask", number, {"parents": [parent] if parent else []}),
        Entry("reply", number, {"notes": {"role": role, "prompt": version}}),
        Entry("heard", number, {"kept": keys, "failure": failure}),
        *(
            Entry("tell", number, {"candidate": k, "score": s})
            for k, s in zip(keys, scores, strict=True)
        ),
    ]  # fmt: skip


def read(*entries):
    moves = Moves(entries)
    for entry in (Entry("tell", None, {"candidate": "start", "score": 2.0}), *entries):
        moves.read(entry)
    return moves.outcomes


def test_speedup_is_against_the_parent_and_the_best_of_a_move_counts():
    outcomes = read(*move(0, 1.0, 4.0, None))
    assert outcomes[0].worked and outcomes[0].log2_speedup == 1.0 and outcomes[0].candidate == "0-1"


def test_a_failure_counts_as_a_halving_and_a_draft_only_by_whether_it_works():
    outcomes = read(*move(0, None), *move(1, failure="no code"), *move(2, 0.1, parent=""), *move(3, 64.0))
    assert [outcomes[n].worth for n in range(4)] == [-1.0, -1.0, 0.0, 1.0]
    total = outcomes_of(outcomes.values())
    assert total == Outcomes(moves=4, worked=2, compared=1, log2_speedup=5.0, worth=-1.0)
    assert total.mean == -0.25


def test_a_role_that_answers_in_words_works_when_it_answers():
    outcomes = read(*move(0, role="planner"), *move(1, role="planner", failure="no JSON"))
    assert [outcomes[n].worked for n in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("own", "shipped", "standing"),
    [
        ((ENOUGH - 1, -1.0), (ENOUGH, 0.0), "trial"),
        ((ENOUGH, -1.0), (ENOUGH - 1, 0.0), "trial"),
        ((ENOUGH, 0.3), (ENOUGH, 0.2), "kept"),
        ((ENOUGH, 0.2), (ENOUGH, 0.2), "retired"),
    ],
)
def test_only_what_came_out_better_after_enough_moves_is_kept(own, shipped, standing):
    mine, theirs = (Outcomes(moves=n, worth=n * mean) for n, mean in (own, shipped))
    assert Version(version="v", guidance="g", own=mine, shipped=theirs).standing == standing


def test_a_choice_depends_on_seed_move_and_the_lines_before_it_only():
    known = [Version(version="base"), Version(version="v", guidance="g")]
    begun = Entry("prompts", None, {"base": "base", "versions": [v.model_dump(mode="json") for v in known]})
    before = [begun, *move(0, 3.0, version="v"), *move(1, 3.0, version="base")]
    later = move(2, None, version="v")
    for seed in range(20):
        one, other = (
            Evolution(lines, 2).choose(seed, 2) for lines in ([*before, later[0]], [*before, *later])
        )
        assert one == other
    assert {Evolution(before).choose(seed, 2).version for seed in range(20)} == {"base", "v"}


def test_a_run_that_goes_on_does_not_begin_again(tmp_path):
    with Store(tmp_path) as store:
        run = store.create_run(planted_task(), device="cpu-1", budget=Budget(), seed=0).id
        begin(store, run, "v0")
        with closing(Journal(store.folder, run)) as journal:
            keep_guidance(journal, 1, "v1", "be brief")
            written = [*journal.entries()]
            begin(store, run, "v0")
            assert [*journal.entries()] == written and len(written) == 2
