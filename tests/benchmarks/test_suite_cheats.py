"""The table of planted cheats and honest kernels fails where our verdict is wrong about either."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.tools import require

from benchmarks import planted_programs, planted_suites, suite_cheats
from kernelwright.suites import Ours, Theirs, judge_both, setup, theirs_of


def judging(accepted: str, refused: str):
    """Stand in for both verdicts: ours is right but for these two."""
    honest = {f.stem for f in (suite_cheats.HOME / "honest").rglob("*.*")}

    def judge(file):
        file = file.parents[1] if file.parent.name == "op_kernel" else file
        right = file.stem != refused if file.stem in honest else file.stem == accepted
        ours = Ours(verdict="accepted" if right else "rejected", decision="equal")
        return Theirs(status="correct", time_us=1.0, reference_us=2.0), ours

    return lambda *_: nullcontext(judge)


@pytest.mark.parametrize(
    ("accepted", "refused", "code"),
    [("", "", 0), ("zeros", "", 1), ("", "plain", 1), ("reference_slowed", "", 0)],
)
def test_either_mistake_fails(monkeypatch, capsys, tmp_path, accepted, refused, code):
    monkeypatch.setattr(suite_cheats, "both_verdicts", judging(accepted, refused))
    rows = tmp_path / "rows.jsonl"
    assert (
        suite_cheats.main(
            [*(f"--operator={name}" for name in ("softmax", "tanh", "program")), "--out", str(rows)]
        )
        == code
    )
    told = capsys.readouterr().out.splitlines()
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    for suite in (*planted_suites.FORMS, *planted_programs.PROGRAMS):
        cheats = [r for r in found if (r["suite"], r["kind"]) == (suite, "cheats")]
        assert len(cheats) >= 30
        passing = sum(r["kernel"] == accepted != "reference_slowed" for r in cheats)
        refused, all_ = sum(r["kernel"] != accepted for r in cheats), len(cheats)
        assert f"| `{suite}` | {all_} | {all_} | {all_} | {refused} | {passing} |" in "\n".join(told)
    assert suite_cheats.main(["--table", str(rows)]) == code, "rows that are there are counted as they are"


@pytest.mark.long
@pytest.mark.parametrize("name", planted_suites.FORMS)
def test_the_planted_problem_has_the_form_of_each_benchmark(name, tmp_path):
    planted = planted_suites.plant(name, planted_suites.FORMS[name].operators[-1], tmp_path)
    path = Path(tmp_path, "k.py")
    path.write_text(
        planted.kernel(
            "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return honest(x)\n"
        )
    )
    with setup(planted.suite, planted.data) as given, given.task(planted.problem) as task:
        assert given.suite.candidate(task, path)
        found = theirs_of(given, planted.problem, task, path.read_text())
    assert found.status == "correct", found.message


@pytest.mark.long
@pytest.mark.needs("C++ compiler")
@pytest.mark.parametrize("name", planted_programs.PROGRAMS)
def test_an_honest_program_is_not_refused(name, tmp_path):
    if name in {"compute-eval", "mskernelbench"}:
        require("nvcc")
    planted = planted_programs.plant_program(name, tmp_path / "data")
    file = next(f for kind, f in planted.kernels(suite_cheats.HOME) if kind == "honest")
    with setup(planted.suite, planted.data, device="cpu") as given:
        row = judge_both(given, planted.problem, planted.written(file, tmp_path))
    assert row.theirs.status in {"correct", "unknown"}, row.theirs.message
    assert row.ours.verdict != "rejected", row.ours.reason


def test_an_edit_that_replaces_nothing_is_told(tmp_path):
    planted = planted_programs.plant_program("npukernelbench", tmp_path / "data")
    file = tmp_path / "edit.cpp"
    file.write_text("// op_kernel\nno such line\n// becomes\nanother\n// end\n")
    with pytest.raises(ValueError, match="replaces what is not once in op_kernel"):
        planted.written(file, tmp_path)


def test_a_sample_is_drawn_by_its_seed_alone(tmp_path):
    planted = planted_suites.plant("kernelbench", "softmax", tmp_path)
    everything = suite_cheats.sampled(planted, "", None, 0)
    first, again, other = (suite_cheats.sampled(planted, "", 6, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 6 and set(first) < set(everything) == set(suite_cheats.kernels(planted))
