"""The command that repeats a run takes the same task from the same target."""

import pytest

from kernelwright.records import Budget, Contract, Run, SourceFile
from kernelwright.search.run._metadata import reproduce
from kernelwright.testing import planted_task


def command(options=None, origin="tasks/norm.py", style="function", **changes):
    reference = planted_task().reference.model_copy(update={"origin": origin, "style": style})
    task = planted_task("norm").model_copy(update={"reference": reference, **changes})
    run = Run(
        id="r", task=task.key, task_name=task.name, device="d", budget=Budget(minutes=2), seed=5,
        options=options or {},
    )  # fmt: skip
    return reproduce(task, run)


@pytest.mark.parametrize(
    ("origin", "style", "target"),
    [
        ("tasks/norm.py", "function", "tasks/norm.py:norm"),
        ("suite/23_Softmax.py", "module", "suite/23_Softmax.py"),
        ("norm/definition.json", "function", "norm/definition.json"),
    ],
)
def test_it_names_the_function_where_a_file_may_have_several(origin, style, target):
    assert command(origin=origin, style=style) == f"kernelwright optimize {target} --seed 5 --minutes 2"


def test_it_names_the_existing_kernel():
    start = (SourceFile(path="k.cpp", text=""),)
    assert "--kernel tasks/k.cpp" in command(start=start)
    assert "--kernel other/k.cpp" in command({"kernel": "other/k.cpp"}, start=start)


@pytest.mark.parametrize(("chosen", "flag"), [(True, "--counters"), (False, "--no-counters")])
def test_it_counts_again_what_was_counted(chosen, flag):
    assert flag in command({"counters": chosen}).split() and "counters" not in command()


def test_a_judgement_is_of_the_same_task_on_the_same_device():
    options = {
        "judged": True,
        "device": "cpu",
        "max_elements": 1000,
        "fixed": ("rows", "dim"),
        "baselines": ("eager",),
    }
    words = command(options, contract=Contract(calls="custom-only", backward=True))
    assert words == (
        "kernelwright judge tasks/norm.py:norm CANDIDATE --backward --device cpu --max-elements 1000 --fixed rows "
        "--fixed dim --calls custom-only --baseline eager"
    )
