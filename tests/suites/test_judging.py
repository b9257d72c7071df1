import json

import pytest

from kernelwright.cli import main
from kernelwright.cli._suite_run import line
from kernelwright.records import DecisionStatus, Interval, VerdictStatus
from kernelwright.suites import (
    Ours,
    Row,
    Script,
    Theirs,
    _both,
    fast_p,
    get_suite,
    judge_all,
    read_rows,
    setup,
    theirs_of,
)
from kernelwright.suites._finished import MOST_BYTES
from kernelwright.testing import made_up_checkout

IDLE_WHEN_TIMED = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.softmax(x, 1) if self.calls <= 5 else x
"""


@pytest.fixture
def data(tmp_path):
    return made_up_checkout("kernelbench", tmp_path / "checkout")


def row(status="correct", time_us=1.0, decision=DecisionStatus.IMPROVED, low=1.5):
    accepted = decision is not DecisionStatus.REJECTED
    return Row(
        suite="kernelbench", problem="level1/1_Softmax", group="level1", candidate="k.py", sizes="declared",
        seconds=0.0,
        theirs=Theirs(status=status, time_us=time_us, reference_us=2.0),
        ours=Ours(
            verdict=VerdictStatus.ACCEPTED if accepted else VerdictStatus.REJECTED, decision=decision,
            speedup=Interval(median=2.0, low=low, high=3.0),
        ),
    )  # fmt: skip


def test_fast_p_counts_what_is_correct_and_faster():
    rows = [row(), row(time_us=2.0), row("wrong"), row(decision=DecisionStatus.REJECTED)]
    assert fast_p(rows, 1.0) == 0.5
    assert fast_p(rows, 2.0) == 0.0
    assert fast_p(rows, 1.0, ours=True) == 0.75
    assert fast_p(rows, 1.6, ours=True) == 0.0


def test_a_kernel_that_idles_when_timed_wins_by_their_rules(data):
    suite = get_suite("kernelbench")
    problem = suite.problems(data)[0]
    with setup(suite, data) as given, given.task(problem) as task:
        found = theirs_of(given, problem, task, IDLE_WHEN_TIMED)
        broken = theirs_of(given, problem, task, "import torch\nclass ModelNew(torch.nn.Linear): ...\n")
        ended = theirs_of(given, problem, task, "import os\nos._exit(0)\n")
        on_gpu = theirs_of(given, problem, task, "import triton\n")
    assert found.status == "correct"
    assert found.speedup > 2
    assert (broken.status, ended.status, on_gpu.status) == ("error", "error", "unknown")


def test_rows_that_are_there_are_not_made_again(data, tmp_path, monkeypatch):
    suite, made = get_suite("kernelbench"), []
    problems = suite.problems(data)
    kernels = {p.name: tmp_path / f"{i}.py" for i, p in enumerate(problems)}
    for kernel in kernels.values():
        kernel.write_text("one")

    def judged(given, problem, kernel):
        made.append(problem.name)
        return row().model_copy(update={"problem": problem.name})

    monkeypatch.setattr(_both, "judge_both", judged)
    rows = tmp_path / "rows.jsonl"
    with setup(suite, data) as given:
        next(judge_all(given, problems, kernels, rows))
        rows.write_bytes(rows.read_bytes() + b'{"key": "cut')  # as a kill leaves it
        assert len(list(judge_all(given, problems, kernels, rows))) == len(problems)
        assert made == [p.name for p in problems]
        kernels[problems[0].name].write_text("another")
        list(judge_all(given, problems, kernels, rows))
    assert made == [*(p.name for p in problems), problems[0].name]


def test_a_problem_that_cannot_be_judged_is_a_row_with_the_reason(data, tmp_path):
    (data / "KernelBench/level1/2_Broken.py").write_text("raise RuntimeError('no')\n")
    suite = get_suite("kernelbench")
    broken = next(p for p in suite.problems(data) if "Broken" in p.name)
    kernel = tmp_path / "k.py"
    kernel.write_text(IDLE_WHEN_TIMED)
    with setup(suite, data, store=tmp_path / "store") as given:
        (found,) = judge_all(given, (broken,), {broken.name: kernel})
    assert found.theirs.status == "unknown"
    assert found.ours.verdict is VerdictStatus.UNKNOWN
    assert "RuntimeError" in found.ours.reason
    assert found.agree is None


def test_the_command_judges_by_both(data, tmp_path, capsys):
    kernel = tmp_path / "kernels" / "level1" / "1_Softmax.py"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(
        "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    words = [
        "suite",
        "judge",
        "kernelbench",
        str(tmp_path / "kernels"),
        "--data",
        str(data),
        "--screen",
        "--json",
    ]
    assert main([*words, "--device", "cpu", "--store", str(tmp_path / "store")]) == 0
    one, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert (one["theirs"]["status"], one["ours"]["verdict"]) == ("wrong", "rejected")
    assert one["agree"] is True
    assert (result["problems"], result["disagree"], result["fast_1_theirs"]) == (1, 0, 0.0)


def test_doctor_names_what_does_not_load_and_what_zeros_answer(data, capsys):
    (data / "KernelBench/level1/2_Broken.py").write_text("raise RuntimeError('no')\n")
    assert main(["suite", "doctor", "kernelbench", "--data", str(data), "--admit", "--json"]) == 1
    *rows, result = map(json.loads, capsys.readouterr().out.splitlines())
    found = {r["problem"]: r for r in rows}
    assert "zeros" in found["level2/2_Max_Subtract"]["passing"]
    assert not found["level1/1_Softmax"]["degenerate"]
    assert not found["level1/2_Broken"]["loads"]
    assert (result["problems"], result["loaded"], result["degenerate"]) == (4, 3, 1)


def test_show_and_suites_tell_what_is_there(data, capsys):
    assert main(["suite", "show", "kernelbench/level1/1_Softmax", "--data", str(data)]) == 0
    assert "torch.softmax" in capsys.readouterr().out
    assert main(["suite", "show", "kernelbench", "--data", str(data)]) == 0
    assert "fast_p" in capsys.readouterr().out
    assert main(["suite", "show", "kernelbench/level1/1_Sofmax", "--data", str(data)]) == 2
    assert "1_Softmax" in capsys.readouterr().err
    assert main(["suites", "--data", str(data), "--json"]) == 0
    rows = [r for r in map(json.loads, capsys.readouterr().out.splitlines()) if "suite" in r]
    here = {r["suite"]: r["here"] for r in rows if r["repository"]}
    assert all(r["here"] and r["problems"] for r in rows if not r["repository"])
    assert here["kernelbench"] == str(data)
    assert all(found is None for name, found in here.items() if name != "kernelbench")


def test_a_folder_without_kernels_is_told(data, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["suite", "judge", "kernelbench", str(tmp_path / "empty"), "--data", str(data)]) == 2
    assert "no kernel named like a problem" in capsys.readouterr().err
    assert main(["suite", "judge", "kernelbench", "--data", str(data)]) == 2


@pytest.mark.parametrize(("script", "device", "said"), [
    (Script("kernelbench", {}, 1.0), "cpu", ""),
    (Script("kernelbench", {}, 1.0, on_gpu=True, needs_gpu=True), "cpu", "it needs a GPU"),
    (Script("kernelbench", {}, 1.0, on_gpu=True, needs_gpu=True), "cuda:0", ""),
    (Script("liger", {}, 1.0), "cuda:0", "its rules run on a CPU alone here"),
])  # fmt: skip
def test_rules_that_a_device_cannot_run_are_told(script, device, said):
    assert _both._lacks(script, device) == said


def test_what_is_no_readable_file_is_a_row_with_the_reason(data, tmp_path, monkeypatch):
    suite = get_suite("kernelbench")
    problem = suite.problems(data)[0]
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    monkeypatch.setattr(_both, "judge_both", lambda *_: pytest.fail("there is nothing to judge"))
    rows = tmp_path / "rows.jsonl"
    large, lost, folder = (kernels / name for name in ("large.py", "lost.py", "folder.py"))
    large.write_bytes(b"#" * (MOST_BYTES + 1))
    lost.symlink_to(kernels / "nowhere.py")
    folder.mkdir()
    with setup(suite, data) as given:
        said = [next(judge_all(given, (problem,), {problem.name: k}, rows)) for k in (large, lost, folder)]
    assert [one.ours.verdict for one in said] == [VerdictStatus.UNKNOWN] * 3
    assert [one.ours.reason == one.theirs.message for one in said] == [True] * 3
    for one, words in zip(said, ("MiB at most", "is no file", "is no file"), strict=True):
        assert words in one.ours.reason
    assert [row.candidate for row in read_rows(rows)] == list(map(str, (large, lost, folder)))


@pytest.mark.parametrize("packed", [True, False])
def test_a_checkout_at_another_commit_is_told(data, capsys, packed):
    git, here, known = data / ".git", "0123456" + 33 * "a", get_suite("kernelbench").commit
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    for commit, told in ((known, False), (here, True)):
        if packed:
            (git / "packed-refs").write_text(
                f"# pack-refs\n{known[::-1]} refs/heads/old\n{commit} refs/heads/main\n"
            )
        else:
            (git / "refs/heads/main").write_text(f"{commit}\n")
        assert main(["suite", "show", "kernelbench", "--data", str(data)]) == 0
        assert ("is at 0123456; its adapter was read at " in capsys.readouterr().err) is told


def test_files_that_are_judged_for_no_problem_are_named(data, tmp_path, capsys, monkeypatch):
    kernels = tmp_path / "kernels"
    (kernels / "level1").mkdir(parents=True)
    for name in ("1_Softmax.py", "level1/1_Softmax.py", "level1/404_None.py", "notes.md"):
        (kernels / name).write_text("no kernel")
    monkeypatch.setattr(_both, "judge_both", lambda given, problem, kernel: row())
    words = [
        "suite",
        "judge",
        "kernelbench",
        str(kernels),
        "--data",
        str(data),
        "--store",
        str(tmp_path / "store"),
    ]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "note: not judged: 1_Softmax.py, level1/404_None.py, named like no problem" in said
    assert "notes.md" not in said
    assert main([*words, "--only", "level1"]) == 0
    assert "not judged" not in capsys.readouterr().err


def test_a_place_that_nothing_can_be_written_to_is_refused_before_the_work(
    data, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(_both, "judge_both", lambda *_: pytest.fail("it works before it looks"))
    kernels, rows = tmp_path / "kernels", tmp_path / "rows.jsonl"
    kernels.mkdir()
    (kernels / "1_Softmax.py").write_text("no kernel")
    rows.write_text("")
    judge = ["suite", "judge", "kernelbench", str(kernels), "--data", str(data), "--to", str(tmp_path)]
    for words, said in (
        (judge, "is a folder; `suite judge` writes rows into a file"),
        (["suite", "report", str(rows), "--to", str(rows)], "is a file; `suite report` writes"),
        (
            ["suite", "audit", str(kernels), "--data", str(data), "--to", str(rows)],
            "is a file; `suite audit` writes",
        ),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err


def test_a_screened_kernel_is_called_right_as_far_as_it_was_screened():
    accepted = row(decision=DecisionStatus.INCONCLUSIVE)
    screened = accepted.model_copy(update={"ours": _both._as_screened(accepted.ours)})
    assert "ours accepted, inconclusive" in line(accepted)
    assert "ours accepted as far as screened, inconclusive" in line(screened)
    assert "sizes other than the problem's own were not tried" in screened.ours.reason
    rejected = row(decision=DecisionStatus.REJECTED).ours
    assert _both._as_screened(rejected) == rejected
