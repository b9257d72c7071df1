"""The whole loop with nothing planted but the model's words: editor, strategy, tuner, compiler, worker and judge."""

import pytest

import kernelwright as kw
from kernelwright.records import Budget, BuildStatus, DecisionStatus, Split, VerdictStatus
from kernelwright.search.evaluation import acceptance
from kernelwright.store import Store
from kernelwright.testing import ScriptedModel

TASK = """
import torch
import kernelwright as kw

@kw.task(x="float32[n]", workloads=[{"n": 1000}], hidden=[{"n": 7919}])
def squared(x):
    y = x * x - 0.5
    for _ in range(50):  # so slow that no disturbance hides what a kernel gains
        y = torch.relu(y)
    return y
"""
LOOP = """#include "kernelwright.h"

KW_KERNEL(squared) {{
  auto x = args.tensor<const float>(0);
  auto out = args.tensor<float>(1);
  {body}
}}
"""
VALUE = "x[i] * x[i] - 0.5f < 0.0f ? 0.0f : x[i] * x[i] - 0.5f"
UNBUILT = LOOP.format(body="for (int64_t i = 0; i < length_of_x; ++i) out[i] = x[i];")
TILED = LOOP.format(
    body=f"""for (int64_t begin = 0; begin < x.numel(); begin += @TILE@)
    for (int64_t i = begin; i < x.numel() && i < begin + @TILE@; ++i) out[i] = {VALUE};"""
)
CHEAT = LOOP.format(
    body=f"""static float kept[1 << 16];
  static bool known = false;
  for (int64_t i = 0; !known && i < x.numel(); ++i) kept[i] = {VALUE};
  known = true;
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = kept[i];"""
)
SPACE = '```space\n{"parameters": {"TILE": [64, 256]}, "first": {"TILE": 64}}\n```\n'
GREEDY = {"strategy.climbs": 1, "strategy.patience": 1, "strategy.target": 100.0}
"""It ends when the repair of the cheat brings nothing, however fast anything was."""
ANSWERS = {"unbuilt": UNBUILT, "tiled": TILED, "cheat": CHEAT}


def answer(name: str) -> str:
    return f"IDEA: {name}\n{SPACE if name == 'tiled' else ''}```cpp\n{ANSWERS[name]}```"


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """Run it once: a kernel that does not build, its repair as a template, a cheat, and its repair."""
    folder = tmp_path_factory.mktemp("loop")
    (folder / "squared.py").write_text(TASK)
    with pytest.MonkeyPatch.context() as patch, ScriptedModel([answer(name) for name in ANSWERS]) as server:
        patch.setenv("NO_PROXY", "127.0.0.1")
        for limit in (
            "_SCREEN_S",
            "_MEASURE_S",
            "_CONFIRM_S",
        ):  # how sure it is of the speed is not asked here
            patch.setattr(acceptance, limit, 1.0)
        result = kw.optimize(
            folder / "squared.py", budget=Budget(evaluations=5, minutes=10), languages=("cpp",), proposers=("start",),
            baselines=("eager",), device="cpu", editors=("llm",), strategy="greedy", learn=False,
            store=folder / "store",
            more={"models": (server.name(),), "edits": 1, **GREEDY},
        )  # fmt: skip
        asked = server.asked
    with Store(folder / "store") as store:
        yield result, asked, store.evaluations(result.run), store.task(store.run(result.run).task)


def by_reason(loop, name):
    return [e for e in loop[2] if e.candidate.reason == name]


@pytest.mark.long
def test_what_does_not_build_comes_back_with_the_compilers_words_and_is_repaired(loop):
    _, asked, _, _ = loop
    (unbuilt,) = by_reason(loop, "unbuilt")
    assert unbuilt.build.status is BuildStatus.FAILED
    assert "This candidate does not work" in asked[1].last and "The compiler says" in asked[1].last
    assert "length_of_x" in asked[1].last
    repaired = by_reason(loop, "tiled")
    assert repaired and all(e.candidate.parents == (unbuilt.candidate.key,) for e in repaired)
    assert all(e.verdict.status is VerdictStatus.ACCEPTED for e in repaired)


def test_the_model_writes_the_template_and_the_tuner_finds_the_numbers(loop):
    tried = [e.candidate.parameters["TILE"] for e in by_reason(loop, "tiled")]
    assert tried[0] == 64 and sorted(tried) == [64, 256]


def test_a_cheat_is_rejected_and_its_finding_says_little(loop):
    _, asked, _, task = loop
    (cheat,) = by_reason(loop, "cheat")
    assert cheat.decision.status is DecisionStatus.REJECTED and cheat.verdict.failure
    told = asked[3].last
    assert f"the check {cheat.verdict.failure!r} failed" in told and "static bool known" in told
    seeds = [str(seed) for seed in cheat.verdict.seeds]
    kept_back = [w.name for split in (Split.HIDDEN, Split.CONFIRM) for w in task.split(split)]
    assert seeds and "n=7919" in kept_back
    assert not [word for a in asked for word in (*seeds, *kept_back) if word in a.text]


def test_the_best_that_is_right_goes_through_the_whole_acceptance(loop):
    result, _, evaluations, _ = loop
    full = [e for e in evaluations if e.stage == "full"]
    assert full and all(e.candidate.reason == "tiled" for e in full)
    assert any(e.verdict.status is VerdictStatus.ACCEPTED for e in full)
    assert result.decision is not DecisionStatus.REJECTED
    assert (result.kernel is not None) == (result.decision is DecisionStatus.IMPROVED)
