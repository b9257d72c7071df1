"""The main job from end to end, in the real program: a tiny task, a few evaluations, everything real."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forked

pytestmark = [pytest.mark.slow, pytest.mark.needs("C++ compiler")]

TASK = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 64, "columns": 512}])
def softmax(x):
    return torch.softmax(x, dim=-1)
"""

RIGHT = """
import torch

def run(x):
    return torch.softmax(x, dim=-1)
"""

WRONG = """
import torch

def run(x):
    return torch.zeros_like(x)
"""


CHAIN = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 128, "columns": 1024}])
def chain(x):
    y = x * 1.5 + 0.5
    y = y * y - 0.25
    y = torch.relu(y) * 0.75 + x
    y = y * y + 1.0
    y = y * 0.5 - x
    return torch.relu(y) + 0.125
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    (folder / "softmax.py").write_text(TASK)
    (folder / "chain.py").write_text(CHAIN)
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text(WRONG)
    return folder


def start(folder, *arguments, store="store"):
    command = [sys.executable, "-m", "kernelwright", *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "KERNELWRIGHT_STORE": str(folder / store)},
    )


def call(folder, *arguments, store="store"):
    variables = {**os.environ, "KERNELWRIGHT_STORE": str(folder / store)}
    done = forked.run(["-m", "kernelwright", *arguments], cwd=folder, env=variables)
    return done.returncode, done.stdout, done.stderr


def lines(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def optimized(folder):
    code, out, err = call(
        folder, "optimize", "softmax.py", "--evaluations", "2", "--proposer", "library", "--language", "cpp",
        "--baseline", "eager", "--json",
    )  # fmt: skip
    assert code == 0, err
    return lines(out)


def test_optimize_ends_with_its_result(optimized):
    result = optimized[-1]
    assert result["event"] == "result" and result["task"] == "softmax"
    assert result["evaluations"] == 2
    assert result["decision"] in {"improved", "equal", "slower", "inconclusive"}
    assert (result["kernel"] is not None) == (result["decision"] == "improved")
    assert result["baseline"] == "eager" and result["speedup"]["median"] > 0
    if result["decision"] == "improved":
        assert 1 < result["speedup"]["low"] <= result["speedup"]["median"] <= result["speedup"]["high"]


def test_optimize_says_what_it_does(optimized):
    names = [e["event"] for e in optimized if e["event"] != "wait"]  # where another run holds the device
    assert names[:4] == ["run", "profile", "captured", "bound"]
    evaluations = [e for e in optimized if e["event"] == "evaluation"]
    assert [e["number"] for e in evaluations] == [1, 2]
    assert all(e["decision"] != "rejected" for e in evaluations), evaluations


def test_a_run_can_be_looked_at(folder, optimized):
    run = optimized[-1]["run"]
    code, out, _ = call(folder, "runs", "--json")
    assert code == 0 and lines(out)[0]["run"] == run
    code, out, _ = call(folder, "show", run)
    assert code == 0 and run in out and "softmax" in out
    code, out, _ = call(folder, "show", "last", "--json")
    assert len([e for e in lines(out) if e["event"] == "evaluation"]) == 2


def test_a_run_can_be_reported_and_exported(folder, optimized):
    code, _, err = call(folder, "report", "last", "--to", "report.html")
    assert code == 0, err
    assert "<html" in (folder / "report.html").read_text()
    code, _, err = call(folder, "export", "last", "--to", "package")
    if optimized[-1]["decision"] == "improved":
        assert code == 0 and (folder / "package" / "claim.json").exists(), err
    else:
        assert code == 2 and "accepted no kernel" in err


def test_every_decision_can_be_made_again(folder, optimized):
    code, out, err = call(folder, "decide", "last", "--recheck", "--json")
    assert code == 0, err
    *decisions, result = lines(out)
    assert len(decisions) == 2 and result["differ"] == 0
    assert all(d["recheck"] == "same" for d in decisions)


@pytest.mark.long
def test_nothing_is_evaluated_twice(folder, optimized):
    code, out, err = call(
        folder, "optimize", "softmax.py", "--evaluations", "1", "--proposer", "library", "--language", "cpp",
        "--baseline", "eager", "--json",
    )  # fmt: skip
    assert code == 0, err
    before = {e["candidate"]: e["decision"] for e in optimized if e["event"] == "evaluation"}
    again = [e for e in lines(out) if e["event"] == "evaluation" and e["candidate"] in before]
    assert again
    assert all(e["cached"] or before[e["candidate"]] == "unknown" for e in again)
    assert lines(out)[-1]["cached"] == sum(e["cached"] for e in again)


@pytest.mark.long
@pytest.mark.alone
def test_judge_accepts_what_is_right(folder):
    code, out, err = call(folder, "judge", "softmax.py", "right.py", "--baseline", "eager", "--json")
    assert code == 0, err
    result = lines(out)[-1]
    assert list(result)[:7] == ["event", "task", "candidate", "verdict", "checks", "decision", "speedup"]
    assert result["verdict"] == "accepted" and result["decision"] != "improved"
    passed, _, of = result["checks"].split()[:3]
    assert passed == of and int(of) > 20 and "findings" not in result


def test_describe_and_judge_together_cost_an_agent_few_tokens(folder):
    """At most 800: some 3.2 characters of such JSON are a token (four of English), so 2,560 characters at most."""
    _, described, _ = call(folder, "describe", "softmax.py", "--json")
    _, judged, _ = call(
        folder, "judge", "softmax.py", "right.py", "--baseline", "eager", "--screen", "--json"
    )
    whole = call(
        folder, "judge", "softmax.py", "right.py", "--baseline", "eager", "--screen", "--json", "--verbose"
    )
    said = described.splitlines()[-1] + judged.splitlines()[-1]
    assert len(said) <= 2_560
    assert len(lines(whole[1])[-1]["findings"]) == int(lines(judged)[-1]["checks"].split()[0]) > 15


def test_judge_rejects_what_is_wrong(folder):
    code, out, err = call(folder, "judge", "softmax.py", "wrong.py", "--baseline", "eager")
    assert code == 1, err
    assert "fail" in out and "rejected" in out.splitlines()[-1]


def test_judge_asks_what_a_kernel_may_call(folder):
    code, out, err = call(
        folder, "judge", "softmax.py", "right.py", "--baseline", "eager", "--calls", "custom-only", "--json"
    )
    assert code == 1, err
    assert [f["check"] for f in lines(out)[-1]["findings"] if f["status"] == "fail"] == ["calls"]


@pytest.mark.long
def test_interrupt_keeps_everything_and_resume_goes_on(folder):
    options = (
        "--evaluations",
        "2",
        "--proposer",
        "library",
        "--language",
        "cpp",
        "--baseline",
        "eager",
        "--json",
    )
    process = start(folder, "optimize", "softmax.py", *options, store="other")
    seen = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["event"] == "evaluation":
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "everything finished is kept" in err
    run = seen[0]["run"]
    code, out, err = call(folder, "runs", "--json", store="other")
    assert lines(out)[0]["status"] == "interrupted"
    code, out, err = call(folder, "resume", run, "--json", store="other")
    assert code == 0, err
    result = lines(out)[-1]
    assert result["run"] == run and result["evaluations"] == 2 and result["cached"] == 0


@pytest.mark.alone
def test_an_improved_kernel_is_packaged_and_the_package_works(folder):
    """Twelve small eager operations against one kernel: a certain win."""
    code, out, err = call(
        folder, "optimize", "chain.py", "--evaluations", "1", "--proposer", "library", "--language", "cpp",
        "--baseline", "eager", "--json", store="certain",
    )  # fmt: skip
    assert code == 0, err
    result = lines(out)[-1]
    assert result["decision"] == "improved", lines(out)
    assert result["speedup"]["low"] > 1.02 and Path(result["kernel"]).is_dir()
    code, _, err = call(folder, "export", result["run"], "--to", "chained", store="certain")
    assert code == 0, err
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder / "chained", capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    code, out, _ = call(folder, "decide", result["run"], "--recheck", "--json", store="certain")
    assert code == 0 and lines(out)[-1]["differ"] == 0
