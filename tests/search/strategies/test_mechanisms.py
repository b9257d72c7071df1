"""What sets each strategy apart, shown on a few planted candidates."""

import pytest

from kernelwright.propose import Move, Reply
from kernelwright.search.archives import Scored, behaviour_of
from kernelwright.search.strategies import Means, make_strategy
from kernelwright.search.strategies.bandit import Bandit
from kernelwright.search.strategies.graph import GraphSearch, Parts, greedy, stalled
from kernelwright.testing import PlantedJudge, PlantedLandscape, PlantedLanguage, planted_candidate


def found(time_us, move=None, *, fault="", **parameters):
    """A candidate of a move, screened."""
    candidate = planted_candidate(time_us, fault=fault, parameters=parameters)
    return Scored.of(PlantedJudge().screen(candidate, PlantedLanguage().build(candidate)), move)


class Talk:
    """Speaks with a strategy: the next move, and what came of it."""

    def __init__(self, name, settings=None, *starts, **means):
        self.strategy = make_strategy(name, Means(**means), settings)
        for start in starts:
            self.strategy.tell(start)

    def ask(self):
        return self.strategy.ask()

    def bring(self, move, *times_us, usd=0.0, notes=None, fault="", **parameters):
        born = [
            found(t, move, fault=fault, of=move.number, n=n, **parameters) for n, t in enumerate(times_us)
        ]
        reply = Reply(proposals=tuple(b.evaluation.candidate for b in born), usd=usd, notes=notes or {})
        self.strategy.heard(move, reply)
        for one in born:
            self.strategy.tell(one)
        return born


def parent_us(move):
    return move.parents[0].decision.time_us if move.parents else None


def test_greedy_keeps_what_is_faster_and_reverts_what_is_not():
    talk = Talk("greedy", None, found(90.0))
    parents = []
    for time_us in (95.0, 70.0, 80.0, 60.0):
        parents.append(parent_us(move := talk.ask()))
        talk.bring(move, time_us)
    assert parents == [90.0, 90.0, 70.0, 70.0] and parent_us(talk.ask()) == 60.0


def test_rounds_go_on_from_the_latest_and_revert_nothing():
    talk = Talk("rounds", None, found(90.0), found(95.0))
    parents = []
    for time_us in (95.5, 70.0, 80.0):
        parents.append(parent_us(move := talk.ask()))
        assert talk.ask() is None, "one at a time"
        talk.bring(move, time_us)
    assert parents == [90.0, 95.5, 70.0] and parent_us(talk.ask()) == 80.0


def test_rounds_repair_until_it_works():
    talk = Talk("rounds", None, found(90.0))
    operators = []
    for fault in ("verify", "verify", ""):
        operators.append((move := talk.ask()).operator)
        talk.bring(move, 80.0, fault=fault)
    assert operators == ["improve", "repair", "repair"] and talk.ask().operator == "improve"


def test_rounds_a_templates_late_trial_is_not_the_latest():
    talk = Talk("rounds", None, found(90.0))
    first = talk.ask()
    talk.bring(first, 80.0)
    talk.bring(talk.ask(), 85.0)
    talk.strategy.tell(found(60.0, first))
    assert parent_us(talk.ask()) == 85.0


def test_greedy_makes_one_change_at_a_time():
    talk = Talk("greedy", None, found(90.0))
    assert talk.ask() is not None and talk.ask() is None


def test_greedy_repairs_once_then_reverts():
    talk = Talk("greedy", None, found(90.0))
    (broken,) = talk.bring(talk.ask(), 10.0, fault="verify")
    repair = talk.ask()
    assert repair.operator == "repair" and repair.parents[0].candidate.key == broken.key
    talk.bring(repair, 10.0, fault="verify")
    assert talk.ask().operator == "improve"


def test_greedy_a_templates_late_trial_does_not_stand_for_the_change_under_way():
    talk = Talk("greedy", None, found(90.0))
    talk.bring(template := talk.ask(), 80.0)
    change = talk.ask()
    talk.strategy.tell(found(60.0, template, late=1))
    (broken,) = talk.bring(change, 10.0, fault="verify")
    repair = talk.ask()
    assert repair.operator == "repair" and repair.parents[0].candidate.key == broken.key
    talk.bring(repair, 99.0)
    assert parent_us(talk.ask()) == 60.0, "and the trial is what the search goes on from"


def test_greedy_moves_on_after_so_many_reverts_and_ends_after_so_many_climbs():
    talk = Talk("greedy", {"patience": 2, "climbs": 3}, found(90.0), found(80.0))
    climbed = []
    while (move := talk.ask()) is not None:
        climbed.append(parent_us(move))
        talk.bring(move, 99.0)
    assert climbed[:4] == [80.0, 80.0, 90.0, 90.0]
    assert climbed[4] is None, "then a fresh draft"


def test_greedy_ends_at_the_bound_unless_that_is_far_above_the_time():
    for bound_us, ends in ((49.0, True), (130.0, False)):
        judge = PlantedJudge(bound_us=bound_us)
        candidate = planted_candidate(50.0)
        start = Scored.of(judge.screen(candidate, PlantedLanguage().build(candidate)))
        talk = Talk("greedy", {"target": 0.9}, start)
        talk.bring(talk.ask(), 60.0)
        assert (talk.ask() is None) == ends


def test_best_of_asks_for_independent_drafts_and_models_take_turns():
    talk = Talk("best_of", {"n": 4}, found(50.0), models=("small", "large"))
    moves = [talk.ask() for _ in range(5)]
    assert [m and (m.operator, m.parents, m.inspirations) for m in moves] == [("draft", (), ())] * 4 + [None]
    assert [m.model for m in moves[:4]] == ["small", "large"] * 2


def test_beam_expands_the_best_of_each_level_and_waits_for_all_of_it():
    talk = Talk("beam", {"width": 2, "branches": 2}, found(90.0), found(80.0), found(70.0))
    level = [talk.ask() for _ in range(4)]
    assert sorted(parent_us(m) for m in level) == [70.0, 70.0, 80.0, 80.0]
    for move, time_us in zip(level[:3], (60.0, 65.0, 99.0), strict=True):
        talk.bring(move, time_us)
    assert talk.ask() is None, "the level is not over"
    talk.bring(level[3], 98.0)
    assert sorted(parent_us(talk.ask()) for _ in range(4)) == [60.0, 60.0, 65.0, 65.0]


def test_islands_see_only_their_own_until_the_best_migrates():
    talk = Talk("evolve", {"islands": 2, "interval": 4, "merging": 0.0}, found(90.0), found(80.0))
    seen = {0: set(), 1: set()}
    for time_us in (70.0, 60.0, 71.0, 61.0):
        move = talk.ask()
        shown = (*move.parents, *move.inspirations)
        seen[move.number % 2] |= {e.decision.time_us for e in shown}
        talk.bring(move, time_us)
    first, second = talk.strategy.islands
    assert seen[1] <= {80.0, 60.0} and seen[0] <= {90.0, 70.0}
    talk.bring(talk.ask(), 99.0)  # the fourth birth on the first island
    assert 70.0 in [m.evaluation.decision.time_us for m in second.members], "its best came over"
    assert 60.0 not in [m.evaluation.decision.time_us for m in first.members]


def test_evolve_merges_two_parents_and_shows_others():
    starts = [found(50.0 + n) for n in range(5)]
    talk = Talk("evolve", {"islands": 1, "merging": 1.0, "inspirations": 3}, *starts)
    move = talk.ask()
    assert move.operator == "merge" and len(move.parents) == 2 and len(move.inspirations) == 2
    assert len({e.candidate.key for e in (*move.parents, *move.inspirations)}) == 4


def test_map_elites_keeps_a_slow_one_that_is_different_and_asks_for_empty_cells():
    fast, slow, shared = found(50.0), found(60.0), found(90.0, style="__shared__")
    talk = Talk("map_elites", {"exploring": 1.0}, fast, slow, shared)
    assert {e.key for e in talk.strategy.grid.elites} == {fast.key, shared.key}
    goals = set()
    for _ in range(20):
        move = talk.ask()
        goals.add(move.goal)
        talk.bring(move, 99.0)
    assert all(goal.startswith("Try a kernel that") for goal in goals) and len(goals) > 3


def test_uct_goes_deeper_where_edits_paid_and_spreads_moves_under_way():
    talk = Talk("uct", {"exploration": 0.05, "widening": 0.5}, found(90.0), found(40.0))
    deep = []
    for _ in range(12):
        move = talk.ask()
        deep.append(parent_us(move))
        talk.bring(move, 95.0)
    assert deep.count(40.0) > 2 * deep.count(90.0)
    spread = Talk("uct", {"exploration": 0.3, "widening": 0.3}, found(50.0), found(51.0))
    assert len({parent_us(spread.ask()) for _ in range(6)}) >= 2


def test_graph_repairs_failures_merges_strangers_and_ends_when_it_stalls():
    talk = Talk("graph", {"patience": 8, "selection": "greedy", "drafts": 0}, found(50.0), found(55.0))
    operators, strangers = [], set()
    while (move := talk.ask()) is not None:
        operators.append((move.operator, len(move.parents)))
        strangers |= {p.decision.time_us for p in move.parents[1:]}
        talk.bring(move, 52.0)
    assert len(operators) == 8 and ("merge", 2) in operators and ("improve", 1) in operators
    assert strangers == {55.0}, "its own children are better, and kin"
    broken = Talk("graph", {"drafts": 1})
    broken.bring(broken.ask(), 10.0, fault="verify")
    assert broken.ask().operator == "repair"


def test_the_four_parts_of_a_graph_search_are_replaceable():
    slowest = Parts(
        select=lambda graph, fitness, dice: min(graph.nodes, key=fitness, default=None),
        operate=lambda graph, fitness, node: ("rewrite", ()),
        fitness=lambda node: node.score or 0.0,
        ended=stalled(3),
    )
    strategy = GraphSearch(Means(operators=("draft", "improve", "rewrite")), drafts=0, parts=slowest)
    for start in (found(50.0), found(80.0)):
        strategy.tell(start)
    move = strategy.ask()
    assert move.operator == "rewrite" and parent_us(move) == 80.0
    assert greedy(strategy.graph, slowest.fitness, None).score == 2.0


def test_near_copies_share_a_ball_and_noise_does_not_keep_the_lead():
    """One lucky measurement among copies of a mediocre kernel against a kernel that is really faster."""
    copies = [found(t, copy=1) for t in (60.0, 59.0, 61.0, 62.0, 63.0)]
    lucky = found(45.0, copy=1)
    honest = [found(50.0, other="x", way="y"), found(51.0, other="x", way="y")]
    talk = Talk("queue", {"epsilon": 0.75, "drafts": 0, "discount": 0.03}, *copies, lucky, *honest)
    assert len(talk.strategy.queue) == 2
    chosen = [parent_us(talk.ask()) for _ in range(10)]
    assert chosen.count(50.0) > chosen.count(45.0)
    assert 45.0 in chosen, "each edit takes a share off a ball's priority"


def test_queue_asks_for_a_critique_and_hands_it_on():
    talk = Talk("queue", {"summary": 2, "drafts": 0}, found(50.0), operators=("draft", "improve", "critique"))
    talk.bring(talk.ask(), 60.0)
    critique = talk.ask()
    assert critique.operator == "critique"
    talk.strategy.heard(critique, Reply(notes={"critique": "too many passes"}))
    assert talk.ask().goal == "too many passes"


PLANNING = ("draft", "improve", "plan")


def plan(*hypotheses):
    said = [{"idea": idea, "rating": rating, "difficulty": hard} for idea, rating, hard in hypotheses]
    return Reply(notes={"hypotheses": said})


def test_world_model_tries_the_best_rated_action_for_its_difficulty_until_it_stagnates():
    talk = Talk("world_model", {"stagnation": 2}, found(90.0), operators=PLANNING)
    planning = talk.ask()
    assert planning.operator == "plan" and parent_us(planning) == 90.0
    assert talk.ask() is None, "nothing to try before the plan is there"
    talk.strategy.heard(planning, plan(("tile", 0.8, 5), ("fuse", 0.6, 1), ("unroll", 0.2, 1)))
    goals = []
    for time_us in (95.0, 80.0, 96.0, 97.0):
        move = talk.ask()
        goals.append((move.goal, parent_us(move)))
        talk.bring(move, time_us)
    assert goals == [("fuse", 90.0), ("fuse", 90.0), ("fuse", 80.0), ("fuse", 80.0)]
    refined = talk.ask()
    assert refined.operator == "plan" and "fuse (rated 0.6, closed" in refined.goal and "tile" in refined.goal
    talk.strategy.heard(refined, plan(("pack", 0.1, 1), ("tile", 0.0, 5), ("unroll", 0.9, 1)))
    move = talk.ask()
    assert move.goal == "unroll", "rated anew"
    assert parent_us(move) == 90.0, "it hangs below what the plan of its time knew"


@pytest.mark.parametrize("repairs", [0, 2])
def test_evolve_repairs_what_fails_as_often_as_it_is_told_to(repairs):
    talk = Talk("evolve", {"repairs": repairs}, found(90.0))
    talk.bring(talk.ask(), 10.0, fault="verify")
    for _ in range(repairs):
        move = talk.ask()
        assert move.operator == "repair"
        talk.bring(move, 10.0, fault="verify")
    assert talk.ask().operator != "repair", "enough repairs"


def test_world_model_without_a_planner_improves_freely():
    assert [m.operator for m in (Talk("world_model", None, found(90.0)).ask(),)] == ["improve"]


def test_features_are_for_what_is_right_and_right_comes_first():
    talk = Talk("features", {"attempts": 2})
    draft = talk.ask()
    assert (draft.operator, draft.goal) == ("draft", "")
    (unbuilt,) = talk.bring(draft, 10.0, fault="verify")
    operators = []
    for _ in range(2):
        move = talk.ask()
        operators.append((move.operator, move.parents[0].candidate.key))
        talk.bring(move, 10.0, fault="verify")
    assert operators == [("repair", unbuilt.key)] * 2
    move = talk.ask()
    assert move.operator == "draft", "enough repairs"
    talk.bring(move, 90.0)
    assert talk.ask().goal.startswith("Use ")


def test_features_that_paid_are_reinforced_and_named_ones_join():
    talk = Talk("features", None, found(90.0))
    usual = dict(talk.strategy.weights)
    move = talk.ask()
    talk.bring(move, 45.0, notes={"features": ["split the reduction", 7]})
    paid = move.goal.removeprefix("Use ").removesuffix(".")
    assert talk.strategy.weights[paid] > 2 * usual[paid]
    assert "split the reduction" in talk.strategy.weights and 7 not in talk.strategy.weights
    move = talk.ask()
    before = talk.strategy.weights[failed := move.goal.removeprefix("Use ").removesuffix(".")]
    talk.bring(move, 10.0, fault="verify")
    assert talk.strategy.weights[failed] < before


def test_bandit_prefers_what_pays_and_what_is_cheap():
    bandit = Bandit(["good", "bad", "dear"], exploration=0.1, thrift=0.5)
    for _ in range(60):
        name = bandit.choose()
        bandit.pull(name)
        bandit.pay(name, {"good": 0.3, "bad": 0.0, "dear": 0.3}[name], 1.0 if name == "dear" else 0.05)
    pulls = {name: arm.pulls for name, arm in bandit.arms.items()}
    assert pulls["good"] > 30 and pulls["good"] > 2 * max(pulls["bad"], pulls["dear"])


def test_portfolio_learns_the_model_the_operator_and_the_strategy_that_pay():
    talk = Talk(
        "bandit", {"strategies": "greedy evolve"}, found(90.0), models=("weak", "strong"),
        operators=("draft", "improve", "repair", "merge", "tile", "unroll", "test", "read-profile", "summarise"),
    )  # fmt: skip
    best = 90.0
    for _ in range(60):
        move = talk.ask()
        better = move.model == "strong" and move.operator == "tile"
        best = best * 0.95 if better else best
        talk.bring(move, best if better else 99.0, usd=0.01)
    models, kinds = talk.strategy.models.arms, talk.strategy.kinds.arms
    assert set(kinds) == {"improve", "tile", "unroll"}
    assert models["strong"].pulls > models["weak"].pulls and kinds["tile"].pulls > kinds["unroll"].pulls


def test_portfolio_shares_what_each_finds():
    talk = Talk("bandit", {"strategies": "greedy evolve"})
    move = talk.ask()
    talk.bring(move, 40.0)
    shown = [talk.ask() for _ in range(3)]
    owners = {talk.strategy._inner[m.number][0] for m in shown if parent_us(m) == 40.0}
    assert owners == {"greedy", "evolve"}, "both go on from what one of them found"


@pytest.mark.parametrize(
    ("words", "cell"),
    [
        ("plain", ("plain", "serial", "direct")),
        ("float4 blockIdx.x", ("vector", "flat", "direct")),
        ("__shared__ blockIdx.y wmma", ("staged", "tiled", "matrix")),
        ("atomicAdd idx torch.matmul", ("plain", "split", "library")),
        ("for for for for", ("plain", "serial", "passes")),
    ],
)
def test_behaviours_are_read_from_the_source(words, cell):
    behaviour = behaviour_of(found(50.0, text=words).evaluation)
    assert (behaviour.memory, behaviour.parallelism, behaviour.algorithm) == cell


def test_resources_are_read_from_the_evidence():
    evaluation = found(50.0).evaluation
    classes = []
    for evidence in (
        {},
        {"sm_90.registers": 200},
        {"shared_bytes": 100_000},
        {"spills": 3, "registers": 255},
    ):
        build = evaluation.build.model_copy(update={"evidence": evidence})
        classes.append(behaviour_of(evaluation.model_copy(update={"build": build})).resources)
    assert classes == ["light", "heavy", "heavy", "spilled"]


def test_a_template_is_one_member_of_a_population_with_its_best_configuration():
    talk = Talk("evolve", {"islands": 1})
    move = Move(number=0, operator="draft")
    for time_us in (70.0, 50.0, 60.0):
        one = found(time_us, move)
        named = one.evaluation.candidate.model_copy(update={"template": "tiles"})
        talk.strategy.tell(Scored(one.evaluation.model_copy(update={"candidate": named}), one.score, move))
    (member,) = talk.strategy.islands[0].members
    assert member.evaluation.decision.time_us == 50.0


def test_landscape_counts_duplicates_and_never_evaluates_them():
    serial_search = PlantedLandscape(1).serial_search(make_strategy("features", Means()), evaluations=80)
    assert serial_search.duplicates > 0
    assert len({one.key for one in serial_search.found}) == len(serial_search.found) == 80
