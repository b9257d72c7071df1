"""What is said when something is cut short, and when the disk refuses."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.cli import _app, main
from kernelwright.cli._common import Common, program
from kernelwright.cli._console import describe, reporting, result_text
from kernelwright.errors import StoreError
from kernelwright.records import Budget
from kernelwright.search import Event, Result


@pytest.mark.parametrize("cut", [KeyboardInterrupt, StoreError, lambda: OSError(errno.ENOSPC, "no space")])
def test_what_is_cut_short_says_how_to_go_on_in_its_own_store(cut, capsys):
    common = Common(store=Path("my runs"), json=True)
    with pytest.raises((KeyboardInterrupt, StoreError, OSError)), reporting(common, Budget()) as on_event:
        on_event(Event(event="run", run="r1", elapsed_s=0.0, data={}))
        raise cut()
    assert capsys.readouterr().err.endswith("kernelwright resume r1 --store 'my runs'\n")


def test_what_cannot_be_resumed_does_not_say_so(capsys):
    with (
        pytest.raises(KeyboardInterrupt),
        reporting(Common(json=True), Budget(), resumes=False) as on_event,
    ):
        on_event(Event(event="run", run="r1", elapsed_s=0.0, data={}))
        raise KeyboardInterrupt
    assert "resume" not in capsys.readouterr().err


def test_the_next_command_finds_the_same_store():
    common = Common(store=Path("mine"))
    for kernel in ("folder", None):
        result = Result(
            run="r1", task="t", decision="equal", speedup=None, baseline=None, bound_us=None, time_us=None,
            fraction_of_bound=None, kernel=kernel, evaluations=1, cached=0, failures={},
        )  # fmt: skip
        assert "report r1 --store mine" in result_text(result, common.again)


def test_a_disk_that_refuses_is_one_sentence(monkeypatch, capsys):
    def refuse(app, given):
        raise OSError(errno.ENOSPC, "No space left on device", "/some/file")

    monkeypatch.setattr(_app.App, "__call__", refuse)
    assert main(["runs", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and "/some/file" in err and "free some space" in err
    assert json.loads(out)["exit_code"] == 1


@pytest.mark.parametrize(
    "fault",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/some/file"),
        ZeroDivisionError("division by zero"),
        MemoryError(),
        SystemExit(0),
    ],
)
def test_a_fault_of_ours_says_where_it_is_and_ends_in_words(monkeypatch, capsys, fault):
    def fail(app, given):
        raise fault

    monkeypatch.setattr(_app.App, "__call__", fail)
    assert main(["runs", "--json"]) == 1
    out, err = capsys.readouterr()
    assert "Traceback" in err and type(fault).__name__ in err
    said = json.loads(out)
    assert (said["event"], said["exit_code"]) == ("error", 1) and err.endswith(
        f"kernelwright: {said['message']}\n"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU])
def test_a_signal_that_asks_to_end_is_named(monkeypatch, capsys, number):
    monkeypatch.setattr(_app.App, "__call__", lambda *_: os.kill(os.getpid(), number))
    before = signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore it, as `nohup` does
    try:
        assert main(["runs", "--json"]) == 130
    finally:
        signal.signal(number, before)
    assert f"interrupted by {number.name}" in json.loads(capsys.readouterr().out)["message"]


@pytest.mark.parametrize(("closed", "asked"), [
    ("stdout", ["runs", "--json"]), ("stderr", ["runs", "--json"]), ("stdout", ["ops", "--help"]),
])  # fmt: skip
def test_a_closed_pipe_ends_the_program_without_a_complaint_of_python(tmp_path, closed, asked):
    code = f"import sys; from kernelwright.cli import main; sys.exit(main({asked}))"
    gone, pipe = os.pipe()
    os.close(gone)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: pipe}
    env = {**os.environ, "KERNELWRIGHT_STORE": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", code], **streams, env=env, text=True, check=False)
    os.close(pipe)
    if closed == "stdout":
        said = "kernelwright: nobody reads its output any more (broken pipe)\n"
        assert (ended.returncode, ended.stderr) == (1, said)
    else:
        assert ended.returncode == 0 and json.loads(ended.stdout)["event"] == "result"


def test_a_run_that_writes_in_no_language_names_its_device_alone():
    data = {"task": "swiglu", "device": "a CPU", "languages": []}
    assert describe(Event(event="run", run="r1", elapsed_s=0.0, data=data)) == "run r1: swiglu on a CPU"


def test_an_edit_is_said_in_words():
    data = {"number": 3, "operator": "improve", "usd": 0.0, "kept": 1, "brought": 2, "failure": ""}
    said = [describe(Event(event="edit", run="r1", elapsed_s=0.0, data={**data, **more})) for more in (
        {}, {"kept": 0, "brought": 0}, {"failure": "the answer is empty"},
    )]  # fmt: skip
    assert said == [
        "edit 3: improve, 1 new of 2",
        "edit 3: improve, no candidate",
        "edit 3: improve, the answer is empty",
    ]


def test_the_next_command_can_be_copied_where_no_shell_finds_the_program(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / ".venv" / "bin" / "kernelwright")])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert program() == ".venv/bin/kernelwright"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert program() == "kernelwright"


def test_that_baselines_start_is_said():
    data = {"names": ["eager", "compile"], "workloads": ["a"]}
    waits = Event(event="baselines", run="r1", elapsed_s=0.0, data=data)
    assert describe(waits) == "starting what must be beaten: eager, compile"
