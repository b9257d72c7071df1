"""What `judge` takes for a candidate: a file, an exported package, a run."""

import pytest

from kernelwright.api.judge import given
from kernelwright.deploy import Claim, Specialisation, package
from kernelwright.errors import NotFoundError, TaskError
from kernelwright.records import Budget, Candidate, Contract, SourceFile
from kernelwright.store import EvaluationKey, Store
from kernelwright.tasks import load_candidate
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate, planted_task

TASK = planted_task()
CPP = Candidate(
    sources=(
        SourceFile(path="kernel.cpp", text='#include "kernelwright.h"\n#include "more.h"\nKW_KERNEL(run) {}\n'),
        SourceFile(path="more.h", text="#define MORE 1\n"),
    ),
    language="cpp", entry="kernel.cpp:run", style="destination", flags=("-funroll-loops",),
)  # fmt: skip
PYTHON = Candidate(
    sources=(SourceFile(path="c.py", text="def other(x):\n    return x\n"),),
    language="torch",
    entry="c.py:other",
)


def evaluated(candidate):
    return PlantedJudge().accept(candidate, PlantedLanguage().build(candidate))


def exported(folder, *candidates):
    found = [evaluated(planted_candidate(50.0)).model_copy(update={"candidate": c}) for c in candidates]
    claim = Claim(
        task="planted", task_key=TASK.key, run="r", reproduce="", decisions=(), contract=Contract(), environment={},
        verified=(), not_tested=(),
    )  # fmt: skip
    package(TASK, [Specialisation(e, TASK.workloads) for e in found], claim, folder / "out")
    return folder / "out"


@pytest.mark.parametrize("candidate", [CPP, PYTHON], ids=["cpp", "python"])
def test_an_exported_package_is_the_candidate_it_was_made_of(tmp_path, candidate):
    out = exported(tmp_path, candidate)
    for folder in (out, out / "planted", next((out / "planted" / "specialisations").iterdir())):
        found = load_candidate(folder, TASK)
        assert found.key == candidate.key, "headers that the language lends are left out"
        assert (found.entry, found.style, found.flags) == (candidate.entry, candidate.style, candidate.flags)


def test_a_package_of_several_kernels_names_their_folders(tmp_path):
    out = exported(tmp_path, CPP, PYTHON)
    with pytest.raises(TaskError, match=f"name the folder of one: .*cpp-{CPP.key}.*torch-{PYTHON.key}"):
        load_candidate(out, TASK)
    assert load_candidate(out / "planted" / "specialisations" / f"torch-{PYTHON.key}", TASK).key == PYTHON.key


def test_a_package_that_is_not_whole_says_so(tmp_path):
    out = exported(tmp_path, PYTHON)
    (out / "planted" / "specialisations.json").write_text("[{}]")
    with pytest.raises(TaskError, match="export the kernel again"):
        load_candidate(out, TASK)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as store:
        yield store


def test_of_a_run_it_is_the_kernel_that_was_accepted_or_the_one_named(store):
    run = store.create_run(TASK, device="cpu-1", budget=Budget(evaluations=1), seed=0)
    with pytest.raises(NotFoundError, match="evaluated no candidate"):
        given(f"run:{run.id}", TASK, store)
    fast, slow = planted_candidate(50.0), planted_candidate(90.0)
    for candidate, judged in ((slow, evaluated(slow)), (fast, evaluated(fast))):
        key = EvaluationKey(
            task=TASK.key, candidate=candidate.key, device="cpu-1", toolchain="t", harness="h"
        )
        store.save_evaluation(run.id, key, judged, elapsed_s=1.0)
    assert given(f"run:{run.id}", TASK, store) == fast
    assert given("run:last", TASK, store) == fast
    assert given(f"run:{run.id}:{slow.key[:9]}", TASK, store) == slow
    with pytest.raises(NotFoundError, match="no candidate called 'zz'"):
        given(f"run:{run.id}:zz", TASK, store)
    with pytest.raises(NotFoundError, match="no run"):
        given("run:zz", TASK, store)
