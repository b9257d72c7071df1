"""What a model is told helps it, and nothing of what the judge keeps is in it."""

import pytest

from kernelwright.errors import NotFoundError
from kernelwright.propose._feedback import shortened, shown
from kernelwright.propose.llm._context import context_of, guide
from kernelwright.propose.llm._exemplars import category_of, exemplars
from kernelwright.propose.llm._prompts import Prompts
from kernelwright.propose.llm._reference import shown_source
from kernelwright.records import (
    Block,
    Build,
    CheckStatus,
    Counters,
    Finding,
    Reference,
    SourceFile,
    Split,
    Timing,
    Variant,
)
from kernelwright.tasks.capture import capture

from .conftest import KERNEL, evaluation, timed


def fail(check, workload="", message="", **figures):
    return Finding(check=check, status=CheckStatus.FAIL, workload=workload, message=message, figures=figures)


def everything(request, *evaluations, role="coder", **move):
    """Return all that a model would be told of the evaluations."""
    task = request.problem.task
    parents = [shown(e, task, request.bounds) for e in evaluations]
    told = {"inspirations": [], "goal": "", "tried": (), "difference": "", **move}
    return "\n".join(m.text for m in Prompts().messages(role, context_of(request), parents=parents, **told))


def test_the_reference_is_shown_without_what_belongs_to_the_judge(problem):
    source = shown_source(problem.task.reference)
    assert "return torch.relu(helper(x))" in source and "# the entry" in source
    assert "SCALE = 2.0" in source and "def helper" in source and "import torch" in source
    for kept in ("7919", "SECRET_SIZES", "4.75", "kw.task", "unrelated"):
        assert kept not in source


def test_other_decorators_and_classes_stay():
    text = (
        "import torch\nfrom torch import nn\n\nN = 3\n\n\nclass Model(nn.Module):\n    @torch.no_grad()\n"
        "    def forward(self, x):\n        return x * N\n\n\ndef get_inputs():\n    return [torch.rand(9973)]\n"
        "\n\nif __name__ == '__main__':\n    N = 4\n"
    )
    reference = Reference(files=(SourceFile(path="t.py", text=text),), entry="t.py:Model", style="module")
    source = shown_source(reference)
    assert "@torch.no_grad()" in source and "N = 3" in source
    assert "9973" not in source and "__main__" not in source


def test_no_hidden_size_seed_tolerance_or_figure_reaches_the_prompt(request_of):
    request = request_of()
    task = request.problem.task
    hidden = [w for w in task.workloads if w.split is not Split.SEARCH]
    assert any("7919" in w.name for w in hidden), "the task has a hidden workload to leak"
    judged = evaluation(
        status="rejected",
        findings=(
            fail("correct", "hidden", "on a hidden workload: error 2 to 10 times at 7919", error=6.125),
            fail("guards", hidden[0].name, "wrote past the end of 7919 rows"),
        ),
        workloads=(timed(task.workloads[0].name), *(timed(w.name, 31337.0) for w in hidden)),
    )
    judged = judged.model_copy(
        update={"verdict": judged.verdict.model_copy(update={"unsupported": (hidden[0].name,)})}
    )
    for role in Prompts().roles():
        text = everything(request, judged, role=role)
        for secret in ("7919", "6.125", "424242424242", "4.75", "31337", "error_factor", "2 to 10"):
            assert secret not in text, (role, secret)
        for workload in hidden:
            assert workload.name not in text
    assert "correct: failed on sizes, layouts or values that are not shown" in everything(request, judged)


def test_what_failed_on_a_search_workload_is_told(request_of):
    request = request_of()
    name = request.problem.task.workloads[0].name
    judged = evaluation(
        status="rejected", speedup=None,
        findings=(fail("correct", name, "error 10 to 100 times what is allowed"), fail("loads", "", "no symbol")),
    )  # fmt: skip
    text = everything(request, judged, role="debugger")
    assert f"correct on {name}: error 10 to 100 times what is allowed" in text
    assert "loads: no symbol" in text and "wrong: the check 'correct' failed" in text


def test_the_compilers_words_are_told_and_kept_short(request_of):
    build = Build(
        status="failed", diagnostics="kernel.cpp:3: error: first\n" + "note\n" * 9000 + "last words"
    )
    text = everything(request_of(), evaluation(status="rejected", speedup=None, build=build), role="debugger")
    assert "error: first" in text and "last words" in text and "left out" in text and len(text) < 20_000
    assert "did not build (failed)" in text


def test_times_intervals_and_the_bound_are_told(request_of):
    request = request_of()
    name = request.problem.task.workloads[0].name
    text = everything(request, evaluation(workloads=(timed(name),)))
    assert (
        f"{name}: 1.0 us, 0.80 (0.75 to 0.85) times as fast as compile; 50% of what dram allows (0.5 us)"
        in text
    )
    assert "0.80 (0.75 to 0.85) times the speed of eager: slower" in text
    assert "spills = 3" in text
    assert "limited by dram" in text and KERNEL.strip() in text


def test_how_many_cores_each_variant_kept_busy_is_told_on_a_cpu_alone(request_of):
    request = request_of()
    name = request.problem.task.workloads[0].name
    variants = tuple(
        Variant(name=n, content="", symbol="run", worker=1) for n in ("candidate", "eager", "compile")
    )
    blocks = tuple(
        Block(
            workload=name, order=(), calls=1,
            times_us={"candidate": t, "eager": 2 * t}, cpu_us={"candidate": 50.0, "eager": 4 * t},
        )
        for t in (49.0, 50.0, 500.0)
    )  # fmt: skip
    for device, told in (
        ("cpu-1", "candidate keeps 1.0 cores busy, eager keeps 2.0 cores busy"),
        ("cuda-1", ""),
    ):
        timing = Timing(variants=variants, blocks=blocks, cache="warm", device=device)
        one = evaluation(workloads=(timed(name),)).model_copy(update={"timing": timing})
        (line,) = shown(one, request.problem.task, request.bounds).times
        assert told in line and ("busy" in line) is bool(told)


def test_alarms_are_told():
    one = evaluation(status="rejected")
    one = one.model_copy(
        update={"decision": one.decision.model_copy(update={"alarms": ("faster-than-physics",)})}
    )
    from kernelwright.testing import planted_task

    assert "too good to be true: faster-than-physics" in shown(one, planted_task(), ()).standing


def test_each_language_is_taught_by_its_own_module(request_of):
    text = everything(request_of(languages=("cpp", "opencl")))
    assert guide("cpp") in text and guide("opencl") in text and guide("triton") not in text


def test_note_lessons_goal_and_what_was_tried(request_of):
    request = request_of(options={"note": "think of NUMA"}, lessons=("norms: stream: 1.2 times",))
    text = everything(request, goal="two rows at once", tried=("unroll by 8: slower",))
    for part in ("think of NUMA", "norms: stream: 1.2 times", "two rows at once", "unroll by 8: slower"):
        assert part in text


def test_the_stable_beginning_is_the_same_for_every_move(request_of):
    request = request_of()
    context = context_of(request)
    move = {"parents": [], "inspirations": [], "tried": (), "difference": ""}
    one, other = (Prompts().messages("coder", context, goal=goal, **move) for goal in ("first", "second"))
    assert one[:2] == other[:2] and one[2] != other[2]
    assert [m.stable for m in one] == [True, True, False]


class TestExemplars:
    def test_a_kernel_of_ours_for_the_same_task(self, problem):
        (one,) = exemplars(problem, ("cpp",))
        assert one.same_task and one.language == "cpp" and "KW_KERNEL" in one.sources[0].text

    def test_one_of_its_category_where_none_computes_the_task(self, problem, monkeypatch):
        from kernelwright.propose.llm import _exemplars

        offered = _exemplars.match_all
        calls = iter([False, True])
        monkeypatch.setattr(
            _exemplars,
            "match_all",
            lambda graph, workload: offered(graph, workload) if next(calls) else iter(()),
        )
        _exemplars._of_category.cache_clear()
        (one,) = exemplars(problem, ("cpp",))
        assert not one.same_task and one.category == "pointwise"

    def test_the_category_is_that_of_the_operators(self, problem):
        assert category_of(capture(problem, problem.task.workloads[0])) == "pointwise"

    @pytest.mark.parametrize("category", ["matmul", "softmax", "norm", "scan", "pool", "reduce", "pointwise"])
    def test_there_is_one_for_every_category(self, category):
        from kernelwright.propose.llm._exemplars import _of_category

        assert _of_category(category)


class TestPrompts:
    def test_a_replaced_prompt_has_another_version_and_runs_in_a_sandbox(self, request_of):
        own = Prompts({"planner": "Plan for {{ context.name }}."})
        assert own.version("planner") != Prompts().version("planner")
        assert own.version("coder") == Prompts().version("coder")
        context = context_of(request_of())
        assert own.messages("planner", context)[-1].text == "Plan for scaled.\n"
        from jinja2.exceptions import SecurityError

        escape = Prompts({"planner": "{{ ''.__class__.__mro__[1].__subclasses__() }}"})
        with pytest.raises(SecurityError):
            escape.messages("planner", context)

    def test_no_such_prompt(self):
        with pytest.raises(NotFoundError, match="planner"):
            Prompts().version("nosuch")


def test_shortened_keeps_both_ends():
    assert shortened("short", 10) == "short"
    assert shortened("a" * 50 + "z" * 50, 20).startswith("a" * 15) and shortened("a" * 50 + "z", 20).endswith(
        "z"
    )


@pytest.mark.parametrize("role", ["profiler-reader", "judge", "coder"])
def test_readers_are_told_what_profilers_counted(request_of, role):
    counted = Counters(
        tool="ncu", workload="n=64", calls=1, figures={"dram_percent": 78.25, "registers": 168}
    )
    judged = evaluation().model_copy(update={"counters": (counted,)})
    told = everything(request_of(), judged, role=role)
    assert "Counted by ncu on n=64, a call: dram 78.2 %, registers 168" in told
    assert "Counted by" not in everything(request_of(), evaluation(), role=role)
