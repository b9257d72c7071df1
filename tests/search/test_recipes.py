"""Every recipe at work against a scripted model: who was asked what, with which context, and what was selected."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from kernelwright.devices import detect
from kernelwright.errors import InputError, NotFoundError
from kernelwright.propose import Move, Reply, Request
from kernelwright.propose.llm import LLMEditor
from kernelwright.propose.team import Team
from kernelwright.records import (
    Budget,
    Candidate,
    Counters,
    Evaluation,
)  # fmt: skip
from kernelwright.search.recipe import Recipe, load_recipe, recipe_names
from kernelwright.search.replay.serial import SerialSearch, serial_search
from kernelwright.search.strategies import Means, make_strategy
from kernelwright.store import Store
from kernelwright.tasks import Problem, load_task
from kernelwright.testing import Asked, ScriptedModel

from .planted import START, TASK, code, evaluate, source, speed_of

ROLES = {
    "toolchain": "Write the toolchain of this candidate",
    "planner": "Say what is worth trying next",
    "judge": "Judge this candidate by the evidence",
    "tester": "Read this candidate as a tester",
    "profiler-reader": "Read the figures of this candidate",
    "summariser": "Sum up what was tried",
    "compiler": "Read it as a compiler does",
    "debugger": "Find the cause and repair it",
}
WORDS: Mapping[str, dict[str, object]] = {
    "planner": {
        "hypotheses": [
            {"idea": "unroll by four", "rating": 0.3, "difficulty": 1},
            {"idea": "stream the stores", "rating": 0.9, "difficulty": 2},
        ]
    },
    "judge": {"critique": "JUDGE SAID", "bottleneck": "dram", "advice": "widen the loads", "rating": 0.5},
    "tester": {"correct": True, "risks": ["n = 1"]},
    "profiler-reader": {"bottleneck": "READER SAID", "evidence": ["30 %"], "advice": "prefetch"},
    "compiler": {"cause": "COMPILER SAID", "lines": ["3"], "advice": "include it"},
    "toolchain": {"build": "g++ -O3 -fno-plt k.cpp", "run": "./k", "why": "speed"},
    "summariser": {"summary": "SUMMARY", "lessons": []},
}


WHOLE = 'title = "t"\nsource = "s"\nmechanism = "m"\nleft_out = "l"\nstrategy = "greedy"\n'


def role_of(asked: Asked) -> str:
    return next((role for role, words in ROLES.items() if words in asked.last), "coder")


@dataclass
class Session:
    """One recipe's search and all that it asked."""

    walked: SerialSearch
    asked: list[Asked]
    replies: list[Reply] = field(default_factory=list)

    @property
    def roles(self) -> list[str]:
        return [role_of(a) for a in self.asked]

    def of(self, role: str) -> list[Asked]:
        return [a for a in self.asked if role_of(a) == role]

    def moves(self, operator: str) -> list[Move]:
        return [m for m in self.walked.moves if m.operator == operator]


Play = Callable[..., Session]


@pytest.fixture(scope="module")
def problem(tmp_path_factory) -> Problem:
    file = tmp_path_factory.mktemp("task") / "double.py"
    file.write_text(TASK)
    return Problem(load_task(file))


@pytest.fixture
def play(problem, tmp_path, monkeypatch) -> Play:
    """Let a recipe search with a model that says what is scripted, the n-th kernel as fast as the script says."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def go(
        name: str, *, evaluations: int = 8, speeds: Callable[[int, Asked], float] = lambda n, _: 1 + 0.1 * n,
        says: Mapping[str, Callable[[int, Asked], str]] = {}, starts: tuple[Candidate, ...] = (START,),
        lessons: tuple[str, ...] = (), seed: int = 0, changed: Mapping[str, str] = {},
        judged: Callable[[Candidate], Evaluation] = evaluate,
    ) -> Session:  # fmt: skip
        counts: dict[str, int] = {}

        def script(asked: Asked) -> str:
            role = role_of(asked)
            number = counts[role] = counts.get(role, 0) + 1
            if role in says:
                return says[role](number, asked)
            if role in WORDS:
                return json.dumps(WORDS[role])
            return code(speeds(counts.get("coder", 0) + counts.get("debugger", 0), asked))

        recipe, replies = load_recipe(name).model_copy(update=changed), []
        with ScriptedModel(script) as server:
            options = {"models": (server.name(),), "figures": recipe.figures}
            with Store(tmp_path) as store:
                run = store.create_run(problem.task, device="cpu", budget=Budget(), seed=0, options=options)
            request = Request(
                problem, detect("cpu"), (), ("cpp",), options=options, store=tmp_path, run=run.id,
                lessons=lessons if recipe.lessons else (),
            )  # fmt: skip
            team = Team(LLMEditor(), recipe.steps)

            def edit(move: Move) -> Reply:
                replies.append(team.edit(move, request))
                return replies[-1]

            strategy = make_strategy(
                recipe.strategy, Means(seed=seed, operators=tuple(team.operators)), recipe.settings
            )
            walked = serial_search(strategy, edit, judged, evaluations=evaluations, starts=starts)
        return Session(walked, server.asked, replies)

    return go


def pairs(session: Session) -> Iterator[tuple[str, str]]:
    yield from zip(session.roles, session.roles[1:], strict=False)


@pytest.mark.parametrize("name", recipe_names())
def test_it_says_what_it_follows_and_what_it_leaves_out(name):
    recipe = load_recipe(name)
    assert recipe.name == name and recipe.source and recipe.mechanism and recipe.left_out
    assert set(recipe.steps) <= set(LLMEditor.operators)
    asked = {o for s in recipe.steps.values() for o in (*s.first, *([s.read_by] if s.read_by else []))}
    assert asked <= set(LLMEditor.operators)


def test_there_is_one_for_each_known_system():
    assert len(recipe_names()) == 17


def test_a_recipe_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(WHOLE)
    assert load_recipe(str(file)) == Recipe(
        name="mine", title="t", source="s", mechanism="m", left_out="l", strategy="greedy"
    )
    file.write_text('strategy = "greedy"\nstragety = 1\n')
    with pytest.raises(InputError, match="mine"):
        load_recipe(str(file))
    file.write_text(WHOLE + '[steps."draft improve"]\nhint = "h"\n')
    assert {name: steps.hint for name, steps in load_recipe(str(file)).steps.items()} == {
        "draft": "h",
        "improve": "h",
    }
    file.write_text("strategy = ")
    with pytest.raises(InputError, match="not TOML"):
        load_recipe(str(file))
    with pytest.raises(NotFoundError, match="cudaforge"):
        load_recipe("cudaforg")
    with pytest.raises(NotFoundError, match="no recipe file"):
        load_recipe(str(tmp_path / "absent.toml"))


def test_cudaforge_the_judge_speaks_before_every_change_and_the_coder_hears_it(play):
    session = play("cudaforge", evaluations=4, speeds=lambda n, _: 1.5 - n / 10)
    assert session.roles == ["judge", "coder"] * 3
    assert all("widen the loads" in a.last and "JUDGE SAID" in a.last for a in session.of("coder"))
    for role in ("judge", "coder"):
        for asked, speed in zip(session.of(role), (1.0, 1.4, 1.3), strict=True):
            assert f"speed {speed}" in asked.last, "both read the latest candidate, though it is slower"
    assert "speed 1.4" not in session.of("coder")[-1].last, "and no history comes along"


def test_cudaforge_a_wrong_candidate_goes_to_the_judge_before_it_is_repaired(play):
    session = play("cudaforge", evaluations=3, speeds=lambda n, _: -1.0 if n == 1 else 2.0)
    assert session.roles == ["judge", "coder", "judge", "debugger"]
    assert "JUDGE SAID" in session.of("debugger")[0].last


def test_astra_tests_profiles_plans_and_codes_from_the_kernel_that_exists(play):
    session = play("astra", evaluations=3)
    assert session.roles == ["tester", "profiler-reader", "planner", "coder"] * 2
    first = session.asked[:4]
    assert all("speed 1.0" in a.last for a in first), "all of them look at the start"
    assert "n = 1" in first[1].last and "READER SAID" in first[2].last, "each hears the ones before"
    assert "Do this one step and no other: stream the stores" in first[3].last


def test_kernelfoundry_fills_cells_and_asks_for_templates(play):
    ways = {1: "", 2: "#pragma omp parallel for\n", 3: "// __shared__ stage\n", 4: "// float4\n"}
    session = play(
        "kernelfoundry", evaluations=10,
        says={"coder": lambda n, _: code(1 + 0.01 * n, ways.get(n, f"// {n}\n"))},
    )  # fmt: skip
    assert all("Write a template: leave the numbers open" in a.last for a in session.of("coder"))
    assert any("Try a kernel that" in m.goal for m in session.moves("improve")), "an empty cell is asked for"
    elites = {m.parents[0].candidate.key for m in session.moves("improve")}
    assert len(elites) > 1, "parents come from several cells, not from the fastest alone"


def test_kernelfoundry_a_template_is_a_proposal_with_its_space(play):
    template = (
        f'```space\n{{"parameters": {{"S": [1, 2]}}, "first": {{"S": 2}}}}\n```\n```cpp\n{source(1)}'.replace(
            "speed 1", "speed @S@"
        )
    )
    session = play("kernelfoundry", evaluations=2, says={"coder": lambda *_: template + "```"})
    (proposal,) = session.replies[0].proposals
    assert [p.values for p in proposal.space.parameters] == [(1, 2)]
    assert session.walked.best == 2


def test_k_search_tries_the_best_rated_hypothesis_until_it_stagnates_and_then_plans_again(play):
    session = play("k-search", evaluations=8, speeds=lambda n, _: 1 + 0.001 * n)
    assert session.roles[:7] == ["planner", *["coder"] * 5, "planner"]
    assert all("Aim: stream the stores" in a.last for a in session.of("coder")[:5])
    again = session.of("planner")[1].last
    assert "stream the stores (rated 0.9, closed, 5 tries" in again, "the planner sees how its action did"
    assert "unroll by four (rated 0.3, open" in again
    assert "Aim: unroll by four" in session.of("coder")[5].last


def test_k_search_an_open_action_is_rated_anew(play):
    def plan(n: int, _: Asked) -> str:
        ideas = {"first": 0.9, "second": 0.5, "third": 0.4} if n == 1 else {"third": 0.8}
        return json.dumps({"hypotheses": [{"idea": i, "rating": r} for i, r in ideas.items()]})

    session = play("k-search", evaluations=8, speeds=lambda n, _: 1 + 0.001 * n, says={"planner": plan})
    goals = [m.goal for m in session.moves("improve")]
    assert goals[:5] == ["first"] * 5 and goals[5] == "third"


def test_kernelevolve_selects_over_the_whole_graph_with_what_was_retrieved(play):
    lesson = "small rows: one thread a row gained 1.3 times"
    session = play(
        "kernelevolve", evaluations=12, lessons=(lesson,), speeds=lambda n, _: (1.5, 0.4, 1.2)[n % 3] + n / 1000
    )  # fmt: skip
    assert all(lesson in a.text for a in session.of("coder"))
    parents = {m.parents[0].candidate.key for m in session.walked.moves if m.parents}
    assert len(parents) >= 3, "the policy chooses among all nodes"


def test_optiml_mixes_thoughts_ranks_them_unbuilt_and_then_searches_a_tree(play):
    def rate(n: int, asked: Asked) -> str:
        rating = 0.9 if "speed 1.2" in asked.last else 0.1
        return json.dumps(WORDS["judge"] | {"rating": rating})

    session = play("optiml", evaluations=5, starts=(), says={"judge": rate})
    assert session.roles[:6] == ["coder"] * 3 + ["judge"] * 3
    thoughts = [a.last for a in session.of("coder")[:3]]
    assert ["memory" in t.partition("Think from the ")[2][:10] for t in thoughts] == [True, False, False]
    assert len({t.partition("Think from the ")[2][:9] for t in thoughts}) == 3
    assert session.walked.found[0].score == pytest.approx(1.2), "one of three was built: the one rated best"
    depth = {c.key: 0 for c in ()}
    for found in session.walked.found:
        above = [p.candidate.key for p in found.move.parents]
        depth[found.key] = 1 + max((depth[k] for k in above), default=0)
    assert max(depth.values()) >= 2, "edits of edits"
    assert session.of("profiler-reader"), "an edit follows a reading"


def test_kernel_smith_shows_others_and_repairs_with_the_words_of_the_execution(play):
    session = play("kernel-smith", evaluations=10, speeds=lambda n, _: -1.0 if n == 3 else 1 + 0.1 * n)
    shown = [len(m.inspirations) for m in session.moves("improve")]
    assert max(shown) >= 2, "top and different ones beside the parent"
    assert any("# Other candidates, for ideas" in a.last for a in session.of("coder"))
    (failed,) = [f for f in session.walked.found if not f.works]
    (repair,) = session.moves("repair")
    (repaired,) = session.of("debugger")
    assert repair.parents[0].candidate.key == failed.key
    assert "wrong: the check 'correct' failed" in repaired.last


def test_kernelblaster_remembers_and_turns_what_was_measured_into_a_direction(play):
    lesson = "memory bound: wider loads gained 1.4 times"
    session = play("kernelblaster", evaluations=4, lessons=(lesson,))
    assert session.roles == ["profiler-reader", "judge", "coder"] * 3
    assert all(lesson in a.text for a in session.asked)
    assert all("READER SAID" in a.last and "Advice: widen the loads" in a.last for a in session.of("coder"))


def test_polca_near_duplicates_share_a_ball_and_a_summary_goes_along(play):
    session = play("polca", evaluations=16, speeds=lambda n, _: 1 + 0.001 * n)
    summaries = [m.number for m in session.moves("summarise")]
    assert summaries[:2] == [5, 11] and len(session.of("summariser")) == len(summaries)
    after = [a for a in session.of("coder")[summaries[0] + 1 :]]
    assert after and all("Aim: SUMMARY" in a.last for a in after)


def test_polca_what_is_alike_is_one_ball_and_what_differs_is_another(play):
    other = "// another way altogether, with words that no other source has\n" * 4
    session = play(
        "polca", evaluations=9, says={"coder": lambda n, _: code(1 + n / 1000, other if n in (2, 5) else "")}
    )
    centres = {other in source_of(m.parents[0]) for m in session.moves("improve")}
    assert centres == {True, False}, "both balls are edited, though one holds most of what was found"


def source_of(evaluation: Evaluation) -> str:
    return evaluation.candidate.sources[0].text


def test_mtmc_one_semantic_action_and_no_other(play):
    session = play("mtmc", evaluations=3)
    assert session.roles == ["planner", "coder"] * 2
    for asked in session.of("coder"):
        assert "Do this one step and no other: stream the stores" in asked.last
        assert "Leave everything else as it is." in asked.last and "unroll by four" not in asked.last
    assert all("one of four kinds: tiling" in asked.last for asked in session.of("planner"))
    assert not any("one of four kinds" in asked.last for asked in session.of("coder"))


def test_mtmc_a_step_that_fails_is_repaired_before_the_next(play):
    session = play("mtmc", evaluations=4, speeds=lambda n, _: -1.0 if n == 1 else 2.0)
    assert session.roles[:4] == ["planner", "coder", "debugger", "planner"]


def test_cuda_llm_first_right_then_fast_by_features(play):
    session = play("cuda-llm", evaluations=7, starts=(), speeds=lambda n, _: -1.0 if n < 4 else 1 + 0.1 * n)
    operators = [m.operator for m in session.walked.moves]
    assert operators[:4] == ["draft", "repair", "repair", "repair"], "fixed until it passes"
    assert set(operators[4:]) == {"improve"}
    assert all(m.goal.startswith("Use ") for m in session.moves("improve"))


def test_maxcode_of_several_proposals_the_one_with_the_most_to_come_goes_on(play):
    def rate(n: int, asked: Asked) -> str:
        unbuilt = "not timed" in asked.last
        rating = speed_of(asked.last) / 10 if unbuilt else 0.5
        return json.dumps(WORDS["judge"] | {"rating": rating})

    session = play("maxcode", evaluations=3, says={"judge": rate})
    assert session.roles[:7] == ["judge", *["coder"] * 3, *["judge"] * 3]
    improving = [a for a in session.of("coder") if "Make this candidate faster" in a.last]
    assert improving and all("JUDGE SAID" in a.last for a in improving), "the critique is part of the state"
    assert session.walked.found[1].score == pytest.approx(1.3), (
        "of 1.1, 1.2 and 1.3 the one rated best was built"
    )


def test_maxcode_the_best_on_the_way_to_a_candidate_is_part_of_its_state(play):
    session = play("maxcode", evaluations=12, speeds=lambda n, _: 3.0 if n == 1 else 2.0 - n / 100)
    states = [m for m in session.moves("improve") if m.parents[0].decision.speedup.median < 2.5]
    below = [m for m in states if m.inspirations]
    assert below and {m.inspirations[0].decision.speedup.median for m in below} == {3.0}
    assert not any(m.inspirations for m in session.moves("improve") if m not in states), "the best is alone"


def test_autokernel_one_change_kept_or_reverted_and_moves_on_after_five_reverts(play):
    session = play("autokernel", evaluations=9, speeds=lambda n, _: 2.0 if n == 1 else 1.0 - n / 100)
    improved = session.moves("improve")
    keys = [m.parents[0].candidate.key for m in improved]
    assert keys[0] == START.key and len(set(keys[1:6])) == 1, "reverted to what was kept"
    assert session.walked.moves[6].operator == "draft", "after five reverts it moves on"
    assert all(
        "Make one change only." in a.last for a in session.of("coder") if "Make this candidate" in a.last
    )


def test_kernelagent_expands_the_best_few_for_the_bottleneck_that_was_named(play):
    session = play("kernelagent", evaluations=10)
    expanded = [m.parents[0].candidate.key for m in session.moves("improve")]
    assert expanded[0] == expanded[1], "each of the beam has several children"
    assert len(set(expanded)) > 1
    assert all(
        "READER SAID" in a.last and "dram" in a.last for a in session.of("coder") if "Make this" in a.last
    )


def test_robust_kbench_three_verifiers_drop_what_one_of_them_finds_wrong_before_it_is_built(play):
    def verdict(n: int, asked: Asked) -> str:
        doubt = "speed 1.1 " in asked.last and "Look only at memory" in asked.last
        return json.dumps({"correct": not doubt, "risks": ["it reads past the end"] if doubt else []})

    session = play("robust-kbench", evaluations=3, says={"tester": verdict})
    assert session.roles[:4] == ["coder", "tester", "tester", "tester"]
    looks = [a.last.partition("Look only at ")[2].split()[0] for a in session.of("tester")[:3]]
    assert looks == ["whether", "memory:", "numerics:"]
    assert 1.1 not in [f.score for f in session.walked.found]
    assert "it reads past the end" in session.replies[0].failure
    assert session.walked.found[1].score == pytest.approx(1.2)


def test_default_the_model_plans_and_goes_on_from_what_the_library_found(play):
    recipe = load_recipe("default")
    assert recipe.proposers == ("start", "library", "schedule", "inductor") and recipe.lessons
    session = play("default", evaluations=5, lessons=("rows: a lesson",))
    assert any(m.parents and m.parents[0].candidate.key == START.key for m in session.walked.moves)
    assert all("rows: a lesson" in a.text for a in session.of("coder"))
    assert all("write a template and leave them open" in a.last for a in session.of("coder"))


def test_default_a_draft_follows_a_plan_and_asks_for_open_numbers(play):
    session = play("default", evaluations=2, starts=())
    assert session.roles[:2] == ["planner", "coder"] and session.moves("draft")
    asked = session.of("coder")[0].last
    assert "Do this one step and no other: stream the stores" in asked
    assert "write a template and leave them open" in asked


def test_autokernel_ends_at_its_share_of_the_bound(play):
    session = play("autokernel", evaluations=9, speeds=lambda n, _: 95.0)
    assert len(session.walked.moves) == 1, "95 of the 100 times that the bound allows"


DRAM = {
    "dram_percent": 84.0,
    "sm_percent": 20.0,
    "occupancy_percent": 93.0,
    "registers": 250.0,
    "l2_hit_percent": 12.0,
}


def counted(candidate: Candidate) -> Evaluation:
    """A candidate that a profiler found to be bound by memory, among figures that say nothing on that."""
    counters = Counters(
        tool="ncu", workload="n=64", calls=1, figures=DRAM, remarks=("most warps wait for a barrier",)
    )
    return evaluate(candidate).model_copy(update={"counters": (counters,)})


def test_cudamaster_plans_codes_and_lets_a_compiler_speak_before_the_debugger(play):
    session = play("cudamaster", evaluations=4, speeds=lambda n, _: -1.0 if n == 2 else 1 + n)
    assert session.roles == [
        "planner", "coder", "toolchain", "planner", "coder", "toolchain", "compiler", "debugger", "toolchain",
    ]  # fmt: skip
    flags = [one.flags for reply in session.replies for one in reply.proposals]
    assert flags == [("-O3", "-fno-plt")] * 3 and all("scripts" in reply.notes for reply in session.replies)
    repair = session.of("debugger")[0].last
    assert "It does not work because: COMPILER SAID" in repair and "Advice: include it" in repair


@pytest.mark.parametrize("filtered", [True, False])
def test_cudamaster_without_its_filter_a_planner_that_follows_the_largest_figure_is_misled(play, filtered):
    """The ablation: the same scripted roles, with the counters of the bottleneck's class and with all of them."""
    of_memory = {"dram", "l2 hit"}

    def plan(_: int, asked: Asked) -> str:
        counters = asked.last.partition("Counted by ncu")[2].partition("\n")[0]
        figures = re.findall(r"([a-z0-9 ]+?) ([\d.]+)(?: %)?(?=,|$)", counters.partition("a call:")[2])
        name = max(figures, key=lambda figure: float(figure[1]))[0].strip()
        return json.dumps({"hypotheses": [{"idea": f"improve {name}", "rating": 1.0, "difficulty": 1}]})

    def write(n: int, asked: Asked) -> str:
        useful = any(f"improve {name}" in asked.last for name in of_memory)
        return code(1 + n if useful else 1 - n / 100, f"// {n}\n")

    options = {} if filtered else {"figures": "all"}
    session = play(
        "cudamaster", evaluations=4, says={"planner": plan, "coder": write}, changed=options, judged=counted
    )
    shown = session.of("planner")[0].last
    assert ("class: bound by memory" in shown, "registers 250" in shown) == (filtered, not filtered)
    assert (session.walked.best > 3) is filtered
