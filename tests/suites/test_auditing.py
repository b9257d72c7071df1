"""Published results: which forms are read, and what is said of what they hold."""

import json

import pytest

from kernelwright.cli import main
from kernelwright.records import DecisionStatus, Interval, VerdictStatus
from kernelwright.report import SuiteReport, headline, render_suite, suite_csv
from kernelwright.suites import (
    Journal,
    Ours,
    Row,
    Theirs,
    _audit,
    audit_all,
    changes,
    fast_p,
    get_suite,
    read_published,
    read_rows,
    setup,
    standing_of,
    summary_of,
)
from kernelwright.testing import made_up_checkout
from kernelwright.verify.checks.earlier_outputs import OVERWRITTEN
from kernelwright.verify.checks.state import NOT_UPDATED

RIGHT = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)
"""
TRITON = "import triton\nimport sys\nsys._getframe()\nclass ModelNew: ...\n"


def row(
    problem="level1/1_Softmax",
    decision=DecisionStatus.IMPROVED,
    failed=(),
    status="correct",
    gain=2.0,
    **more,
):
    accepted = decision not in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
    verdict = {DecisionStatus.REJECTED: VerdictStatus.REJECTED}.get(decision, VerdictStatus.UNKNOWN)
    return Row(
        suite="kernelbench", problem=problem, group=problem.partition("/")[0], candidate="run:r:k", sizes="declared",
        seconds=1.0, theirs=Theirs(status=status, time_us=1.0, reference_us=gain),
        ours=Ours(
            verdict=VerdictStatus.ACCEPTED if accepted else verdict, decision=decision, failed=failed,
            speedup=Interval(median=gain, low=gain * 0.9, high=gain * 1.1) if accepted else None,
        ), **more,
    )  # fmt: skip


@pytest.mark.parametrize(("check", "said", "stands"), [
    ("earlier-outputs", "after a later call, error more than 100 times", "cheats"),
    ("earlier-outputs", f"{OVERWRITTEN}: after a later call, error", "wrong"),
    ("state-unchanged", "state 'bias' was changed, which the reference does not do", "cheats"),
    ("state-unchanged", f"state 'running_mean' {NOT_UPDATED}", "wrong"),
])  # fmt: skip
def test_a_careless_kernel_is_wrong_and_no_cheat(check, said, stands):
    made = row(decision=DecisionStatus.REJECTED, failed=(check,))
    ours = made.ours.model_copy(update={"reason": f"{check}: {said}"})
    assert standing_of(made.model_copy(update={"ours": ours})) == stands


@pytest.fixture
def data(tmp_path):
    return made_up_checkout("kernelbench", tmp_path / "checkout")


@pytest.mark.parametrize("published", [
    {"level1": {"1_Softmax": RIGHT, "9_None": RIGHT}},
    {"1": {"1": {"code": RIGHT, "speedup": "2.5"}, "9": RIGHT}},
    [
        {"level_id": 1, "task_id": "1", "custom_code": RIGHT, "score_default": 2.5},
        {"level": "1", "task": "9", "code": RIGHT},
    ],
], ids=["names", "numbers", "records"])  # fmt: skip
def test_published_forms_are_read(published, data, tmp_path):
    suite, file = get_suite("kernelbench"), tmp_path / "published.json"
    file.write_text(json.dumps(published))
    known, unknown = read_published(file, suite, suite.problems(data))
    assert (known.problem.name, known.text, unknown.problem) == ("level1/1_Softmax", RIGHT, None)
    assert known.claimed in (None, 2.5)
    if isinstance(published, list):
        file.write_text("\n".join(map(json.dumps, published)))
        assert read_published(file, suite, suite.problems(data)) == (known, unknown)


def test_a_record_without_code_is_one_kernel_whose_code_is_missing(tmp_path):
    file, suite = tmp_path / "published.jsonl", get_suite("kernelbench")
    file.write_text(json.dumps({"level_id": "1", "task_id": "2", "ref_code": RIGHT, "custom_code": None}))
    (one,) = read_published(file, suite, ())
    assert (one.label, one.text, one.claimed) == ("1/2", "", None)
    (row,) = audit_all(suite, (one,), None)
    assert row.ours.reason == "the set does not have its code"


def test_a_dataset_of_traces_gives_code_and_claim(tmp_path):
    solution = {"name": "one", "definition": "add", "spec": {"language": "triton"}, "sources": []}
    trace = {"definition": "add", "solution": "one", "evaluation": {"performance": {"speedup_factor": 3.0}}}
    for place, text in (
        ("solutions/add/one.json", json.dumps(solution)),
        ("traces/add.jsonl", f"{json.dumps(trace)}\n{json.dumps(trace | {'solution': 'gone'})}\n"),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    (one,) = read_published(tmp_path, get_suite("kernelbench"), ())
    assert (one.label, one.claimed, json.loads(one.text)) == ("one", 3.0, solution)
    kept, gone = read_published(tmp_path / "traces/add.jsonl", get_suite("kernelbench"), ())
    assert (kept.text, gone.text) == (one.text, "")


def test_what_cannot_run_says_why_and_what_stands_out(tmp_path):
    file, suite = tmp_path / "published.json", get_suite("kernelbench")
    file.write_text(json.dumps({"level1": {"1": TRITON, "2": RIGHT}}))
    first, second = audit_all(suite, read_published(file, suite, ()), None, tmp_path / "rows.jsonl")
    assert (first.ours.reason, standing_of(first)) == ("it needs a GPU", "unknown")
    assert first.stands_out == ("suspect: looks into other code (kernel.py:3)",)
    assert second.ours.reason == "nothing was run: only its text was read"
    assert read_rows(tmp_path / "rows.jsonl") == (first, second)


def test_standings_and_the_headline():
    rows = [
        row(), row(decision=DecisionStatus.EQUAL, gain=1.0), row(decision=DecisionStatus.INCONCLUSIVE),
        row(decision=DecisionStatus.REJECTED, failed=("correct",)),
        row(decision=DecisionStatus.REJECTED, failed=("fresh-content",)),
        row(decision=DecisionStatus.UNKNOWN, status="wrong"),
    ]  # fmt: skip
    assert [standing_of(r) for r in rows] == ["holds", "equal", "inconclusive", "wrong", "cheats", "unknown"]
    found = summary_of(rows)
    assert (found.correct_theirs, found.accepted_ours, found.improved_ours) == (5, 3, 1)
    assert found.inconclusive == pytest.approx(1 / 6, abs=1e-3)
    assert found.geomean_ours == pytest.approx(2 ** (1 / 6), abs=1e-3)
    assert fast_p(rows, 0.5, ours=True) == 0.5  # what is right counts below 1, whatever its decision
    assert fast_p(rows, 1.0, ours=True) == pytest.approx(1 / 6)


def test_a_report_says_of_what_was_only_screened_how_far_its_verdict_reaches():
    made = row()
    screened = made.model_copy(update={"ours": made.ours.model_copy(update={"screened": True})})
    told = SuiteReport("kernelbench", [row("level1/2_B"), screened])
    assert "ours 2 accepted (1 as far as screened)," in headline(told.summary)
    for text in (suite_csv(told.rows), render_suite(told)):
        assert text.count("accepted as far as screened") == 1
    assert ">2, 1 as far as screened<" in render_suite(told)


def test_changes_are_told_where_intervals_part():
    before = [row(), row("level1/2_B"), row("level1/3_C")]
    after = [row(gain=2.05), row("level1/2_B", gain=3.0), row("level1/4_D")]
    found = {c.problem: c for c in changes(after, before)}
    assert set(found) == {"level1/2_B", "level1/3_C", "level1/4_D"}
    assert found["level1/2_B"].factor == 1.5
    assert (found["level1/3_C"].after, found["level1/4_D"].before) == ("", "")


def test_the_report_has_all_rows_both_verdicts_and_escapes_them(tmp_path, capsys):
    journal, earlier = Journal(tmp_path / "rows.jsonl"), Journal(tmp_path / "earlier.jsonl")
    for i in range(250):
        made = row(f"level{i % 3 + 1}/{i}_P", claimed=9.0)
        ours = made.ours.model_copy(update={"reason": "<script>"})
        journal.rows[str(i)] = made.model_copy(update={"ours": ours})
    journal.file.write_text("".join(
        json.dumps({"key": k, "row": r.model_dump(mode="json")}) + "\n" for k, r in journal.rows.items()
    ))  # fmt: skip
    earlier.keep("0", row("level1/0_P", decision=DecisionStatus.SLOWER))
    words = [
        "suite",
        "report",
        str(journal.file),
        "--against",
        str(earlier.file),
        "--to",
        str(tmp_path / "out"),
    ]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["problems"], result["improved_ours"], len(result["changes"])) == (250, 250, 250)
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("_P</td>") >= 250
    assert "<script>" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "by ours, earlier" in page
    assert len((tmp_path / "out/report.csv").read_text().splitlines()) == 251
    assert "| level2 | 83 |" in (tmp_path / "out/report.md").read_text()


def test_the_audit_command_writes_one_page(data, tmp_path, capsys):
    file = tmp_path / "published.json"
    file.write_text(json.dumps([{"level": 1, "task": 1, "code": TRITON, "speedup": 4.0}]))
    words = ["suite", "audit", str(file), "--data", str(data), "--to", str(tmp_path / "out"), "--json"]
    assert main([*words, "--device", "cpu", "--store", str(tmp_path / "store")]) == 0
    one, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert (one["problem"], one["standing"]) == ("level1/1_Softmax", "unknown")
    assert result["standings"] == {"unknown": 1}
    assert (
        "geometric mean 4.00 over 1 kernels. None of them could be judged"
        in (tmp_path / "out/report.md").read_text()
    )


def test_bad_files_are_told(tmp_path, capsys):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "empty.json").write_text("{}")
    to = ["--to", str(tmp_path / "out")]
    for words, said in (
        (["report", str(tmp_path / "none.jsonl"), *to], "is no file"),
        (["report", str(tmp_path / "empty.json"), *to], "has no row"),
        (["report", str(tmp_path / "empty.json")], "--to DIR"),
        (["audit", str(tmp_path / "none.json"), *to], "does not exist"),
        (["audit", str(tmp_path / "bad.json"), "--read", *to], "neither JSON nor lines"),
        (["audit", str(tmp_path / "empty.json"), "--read", *to], "no kernel in a known form"),
    ):
        assert main(["suite", *words]) == 2, words
        assert said in capsys.readouterr().err


def test_a_kernel_that_lacks_a_gpu_is_not_called_wrong_and_one_that_asks_for_it_is_pointed_out(
    monkeypatch, tmp_path, data
):
    suite = get_suite("kernelbench")

    def judged(given, one):
        said = "RuntimeError: Tried to instantiate dummy base class CUDAGraph" if "Graph" in one.text else ""
        made = row(decision=DecisionStatus.REJECTED, status="error") if said else row()
        return made.model_copy(update={"theirs": made.theirs.model_copy(update={"message": said})})

    monkeypatch.setattr(_audit, "_judged", judged)
    texts = [RIGHT + "torch.cuda.CUDAGraph()", RIGHT + "torch.cuda.is_available()", RIGHT]
    published = tmp_path / "set.json"
    published.write_text(json.dumps({"1": {"1": texts}}))
    found = read_published(published, suite, suite.problems(data))
    with setup(suite, data) as given:
        graph, asks, plain = audit_all(suite, found, given)
        on_gpu = next(audit_all(suite, found, given, gpu=True))
    assert (standing_of(graph), graph.ours.reason) == ("unknown", "it needs a GPU")
    assert standing_of(on_gpu) == "wrong", "where there is a GPU, the same words are the kernel's own fault"
    assert [_audit.ELSEWHERE in one.stands_out for one in (graph, asks, plain)] == [False, True, False]
    assert standing_of(asks) == standing_of(plain) == "holds"


def test_a_set_with_the_problem_s_text_is_judged_on_that(tmp_path, data):
    suite = get_suite("kernelbench")
    problem = suite.problems(data)[0]
    text = (data / problem.file).read_text()
    other = text.replace("softmax", "log_softmax")
    assert other != text
    records = [
        {"level_id": 1, "task_id": 1, "custom_code": RIGHT, "ref_code": code}
        for code in (other, f"# the same\n{text}")
    ]
    published = tmp_path / "set.jsonl"
    published.write_text("\n".join(map(json.dumps, [*records, records[0] | {"custom_code": "None"}])))
    found = read_published(published, suite, suite.problems(data))
    assert [one.text for one in found] == [RIGHT, RIGHT, ""]
    with setup(suite, data, screen=True, device="cpu", store=tmp_path / "store") as given:
        older, same, none = audit_all(suite, found, given)
    assert (standing_of(older), older.theirs.status) == ("wrong", "wrong")
    assert _audit.OTHER_TEXT in older.stands_out
    assert same.theirs.status == "correct"
    assert same.ours.verdict == "accepted"
    assert _audit.OTHER_TEXT not in same.stands_out
    assert none.ours.reason == "the set does not have its code"


def test_what_is_refused_for_shrunk_sizes_is_no_wrong_answer(monkeypatch, tmp_path, data):
    def found(said, sizes="declared", failed=("runs",)):
        refused = row(decision=DecisionStatus.REJECTED, failed=failed)
        ours = refused.ours.model_copy(update={"reason": said})
        monkeypatch.setattr(
            _audit, "_judged", lambda *_: refused.model_copy(update={"ours": ours, "sizes": sizes})
        )
        with setup(suite, data) as given:
            (audited,) = audit_all(suite, read_published(published, suite, suite.problems(data)), given)
        return standing_of(audited), audited.ours.reason

    suite, published = get_suite("kernelbench"), tmp_path / "set.json"
    published.write_text(json.dumps({"1": {"1": RIGHT}}))
    assert found("runs: error: RuntimeError: 64 and 8") == ("wrong", "runs: error: RuntimeError: 64 and 8")
    assert found("runs: error: RuntimeError: 64 and 8", "n: 64 → 8") == (
        "unknown",
        "it may be written for the declared sizes, and was judged at less: runs: error: RuntimeError: 64 and 8",
    )
    assert found("correct: error", "n: 64 → 8", ("runs", "correct"))[0] == "wrong"


def test_answers_that_quote_problems_instead_of_naming_them_are_known(tmp_path):
    suite, data = get_suite("tritonbench"), made_up_checkout("tritonbench", tmp_path / "checkout")
    (data / "data/TritonBench_G_v1/add.py").write_text(
        "import triton\n\ndef add(x): ...\n" + 146 * "#" + "\nadd(1)\n"
    )
    described = [{"file": "scaled_relu.py", "description": "Computes a ReLU,\n scaled."}]
    (data / "data/TritonBench_T_v1.jsonl").write_text(json.dumps(described))
    asked = "Functional Description: Computes a ReLU,\nscaled.\nWrapper Entry Information: scaled_relu(x)"
    answers = [
        {"prompt": asked, "predict": "Here:\n```python\nmine = 1\n```\nas asked"},
        {"label": "import triton\n\ndef add(x): ...\n<|im_end|>", "predict": "mine = 2<|im_end|>"},
        {"label": "def nobody(x): ...", "predict": "mine = 3"},
    ]
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, answers)))
    found = read_published(file, suite, suite.problems(data), data)
    assert [(one.label, one.problem is not None, one.text) for one in found] == [
        ("T/scaled_relu", True, "mine = 1\n"), ("G/add", True, "mine = 2"), ("record 2", False, "mine = 3"),
    ]  # fmt: skip
    (tmp_path / "others.jsonl").write_text('{"task_id": "T/scaled_relu", "code": "mine"}')
    (other,) = read_published(tmp_path / "others.jsonl", suite, suite.problems(data), data)
    assert other.problem and other.problem.name == "T/scaled_relu"
