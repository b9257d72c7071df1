"""Admission within a deadline."""

from collections import Counter

import pytest

from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, _admit, admit, precompute, verify
from kernelwright.verify._case import Case

TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def double(x):
    return x * 2
"""


def test_admission_ends_by_its_deadline(tmp_path):
    (tmp_path / "double.py").write_text(TASK)
    problem = Problem(load_task(tmp_path / "double.py"))
    with pytest.raises(TimeoutError, match="deadline"):
        admit(problem, deadline_s=0.0)
    assert admit(problem).caught


def test_what_passes_by_chance_is_tried_on_other_draws(tmp_path, monkeypatch):
    (tmp_path / "double.py").write_text(TASK)
    problem = Problem(load_task(tmp_path / "double.py"))
    chance = iter([[("float16", False)], [("float16", True)]])
    monkeypatch.setattr(_admit, "_tried", lambda *_: next(chance))
    found = admit(problem)
    assert (found.cases, found.caught) == (2, {"float16": True}) and not found.adapted
    monkeypatch.setattr(_admit, "_tried", lambda *_: [("float16", False)])
    assert (admit(problem).cases, admit(problem).degenerate) == (4, True)


def test_a_draw_on_which_the_native_op_is_not_accurate_enough_is_drawn_again(tmp_path, monkeypatch):
    (tmp_path / "double.py").write_text(TASK)
    problem = Problem(load_task(tmp_path / "double.py"))
    oracle, drawn = Oracle(problem), []
    monkeypatch.setattr(Case, "usable", property(lambda case: drawn.append(case.seed) or len(drawn) > 2))
    found = admit(problem, oracle=oracle)
    assert drawn[0] == oracle.screen_seed and len(set(drawn)) == 3
    assert (found.cases, found.unusable, found.degenerate) == (1, (), False) and all(found.caught.values())
    assert list(found.redrawn.values()) == [2]


def test_a_workload_is_given_up_where_no_draw_is_usable(tmp_path, monkeypatch):
    (tmp_path / "double.py").write_text(TASK)
    problem = Problem(load_task(tmp_path / "double.py"))
    drawn = []
    monkeypatch.setattr(Case, "usable", property(lambda case: drawn.append(case.workload.name)))
    found = admit(problem)
    assert found.unusable == (problem.task.workloads[0].name,) and not found.redrawn and found.degenerate
    assert set(Counter(drawn).values()) == {4}


def test_wrong_answers_are_tried_first_on_what_screenings_expect(tmp_path, monkeypatch):
    (tmp_path / "double.py").write_text(TASK)
    problem = Problem(load_task(tmp_path / "double.py"))
    oracle, seen = Oracle(problem), []
    precompute(oracle)
    monkeypatch.setattr(Oracle, "make", lambda *_, **__: pytest.fail("it was made for the screening"))
    monkeypatch.setattr(_admit, "_tried", lambda _, case: seen.append(case.seed) or [("zeros", True)])
    assert admit(problem, oracle=oracle).caught == {"zeros": True} and seen == [oracle.screen_seed]


POSITIVE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {body}

rows = 24
dim = 48

def get_inputs():
    return [torch.rand(rows, dim)]

def get_init_inputs():
    return []
"""


def admitted(folder, body):
    (folder / "task.py").write_text(POSITIVE.format(body=body))
    return admit(Problem(load_task(folder / "task.py")))


@pytest.mark.parametrize(
    "body", ["x.argmax(-1).float()", "(x.sum() * 0 + 0.25).reshape(1) + (x[0, 0] > 0.5)"]
)
def test_what_a_smaller_dtype_holds_by_chance_is_not_degenerate(tmp_path, body):
    found = admitted(tmp_path, body)
    assert found.caught["float16"] and found.caught["bfloat16"] and not found.degenerate, found.passing


def test_a_relu_of_positive_numbers_is_adapted(tmp_path):
    found = admitted(tmp_path, "torch.relu(x)")
    assert found.adapted.keys() == {"input-0"}
    assert found.adapted["input-0"] in {"mixed", "negatives", "normal"}
    assert not found.degenerate
    assert found.finding.status == "pass"


def test_downcasts_alone_may_be_caught_at_other_sizes(tmp_path, monkeypatch):
    (tmp_path / "double.py").write_text(
        TASK.replace("workloads", 'hidden=[{"rows": 2, "columns": 8}], workloads')
    )
    problem = Problem(load_task(tmp_path / "double.py"))

    def is_small(case):
        return case.workload.arguments[0].shape == (2, 8) and case.workload.regime == "declared"

    def tried(_, case):
        small = is_small(case)
        return [("float16", small), ("zeros", small or case.workload.regime == "mixed")]

    monkeypatch.setattr(_admit, "_tried", tried)
    assert admit(problem).adapted == {"float16": "declared", "zeros": "mixed"}
    monkeypatch.setattr(_admit, "_tried", lambda _, case: [("zeros", is_small(case))])
    assert admit(problem).passing == ("zeros",)


def test_what_the_declared_inputs_refuse_is_not_adapted(tmp_path):
    assert admitted(tmp_path, "torch.softmax(x, -1)").adapted == {}


def test_what_no_regime_refuses_is_degenerate(tmp_path):
    found = admitted(tmp_path, "torch.relu(x) * 0 + x")
    assert "input-0" in found.passing
    assert found.finding.status == "unknown"


def test_the_regimes_that_refuse_are_those_that_candidates_meet(tmp_path, pool, make):
    (tmp_path / "task.py").write_text(POSITIVE.format(body="torch.relu(x)"))
    problem = Problem(load_task(tmp_path / "task.py"))
    copied = make("def run(x):\n    return x.clone()\n")
    assert verify(problem, *copied, pool=pool, depth="screen").status == "accepted"
    assert verify(problem, *copied, pool=pool).failure == "correct"


def test_without_other_regimes_it_stays_degenerate(tmp_path):
    (tmp_path / "task.py").write_text(POSITIVE.format(body="torch.relu(x)"))
    task = load_task(tmp_path / "task.py")
    declared = tuple(w for w in task.workloads if w.regime == "declared")
    found = admit(Problem(task.model_copy(update={"workloads": declared})))
    assert found.passing == ("input-0",)
