"""The program, in a process of its own where that matters: help, wrong input, exit codes, JSON lines."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forked

from kernelwright.cli import main
from kernelwright.cli._app import COMMANDS


@pytest.fixture
def program(tmp_path):
    def call(*arguments, **environment):
        variables = {**os.environ, "KERNELWRIGHT_STORE": str(tmp_path / "store"), **environment}
        return forked.run(["-m", "kernelwright", *arguments], cwd=Path.cwd(), env=variables)

    return call


def test_help_names_every_command(program):
    done = program("--help")
    assert done.returncode == 0
    assert all(f" {command} " in done.stdout for command in COMMANDS)
    assert program().stdout == done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(capsys, command):
    assert main([command, "--help"]) == 0
    said = capsys.readouterr()
    assert "--store" in said.out and "--json" in said.out
    assert said.err == ""


def test_help_of_a_command_says_all_that_its_function_says(capsys):
    assert main(["judge", "--help"]) == 0
    assert "Exit code 0: the candidate is correct and does not cheat" in capsys.readouterr().out


def test_help_has_the_word_that_switches_off_only_where_there_is_something_to_switch_off(capsys):
    assert main(["optimize", "--help"]) == 0
    said = capsys.readouterr().out
    assert "--no-learn" in said and "--no-json" not in said and "--no-backward" not in said


def test_help_leaves_out_what_is_merely_not_given(capsys):
    assert main(["optimize", "--help"]) == 0
    said = capsys.readouterr().out
    assert "[default: 0]" in said and "None]" not in said and "False]" not in said and "()]" not in said


def test_version(program):
    done = program("--version")
    assert done.returncode == 0 and done.stdout.strip()[0].isdigit()


TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def double(x):
    return x * 2
"""

WRONG = {
    "missing file": (("optimize", "nosuch.py"), "nosuch.py"),
    "not a task": (("optimize", "{empty}"), "empty.py"),
    "not a kind of file": (("optimize", "{text}"), "notes.txt"),
    "unknown language": (("optimize", "{task}", "--language", "nosuch"), "nosuch"),
    "unknown proposer": (("optimize", "{task}", "--proposer", "nosuch"), "nosuch"),
    "unknown device": (("optimize", "{task}", "--device", "nosuch"), "nosuch"),
    "part of an evaluation": (("optimize", "{task}", "--evaluations", "1.5"), "not a whole number"),
    "misspelt proposer": (("optimize", "{task}", "--proposer", "librery"), "did you mean 'library'"),
    "misspelt command": (("optimise", "{task}"), "did you mean 'optimize'"),
    "one word too many": (("optimize", "{task}", "spare.py"), "'spare.py' is more"),
    "unknown tuner": (("optimize", "{task}", "--tuner", "nosuch"), "nosuch"),
    "unknown baseline": (("optimize", "{task}", "--baseline", "nosuch"), "nosuch"),
    "negative budget": (("optimize", "{task}", "--evaluations", "-1"), "-1"),
    "no time": (("optimize", "{task}", "--minutes", "0"), "minutes"),
    "endless": (("optimize", "{task}", "--minutes", "inf"), "minutes"),
    "endless sizes": (("optimize", "{task}", "--max-elements", "inf"), "'inf' is not a number such as 4e6"),
    "no file": (("optimize", "/dev/null"), "'/dev/null' is no file"),
    "no kernel to start from": (("optimize", "{task}", "--kernel", "nosuch.cpp"), "kernel file 'nosuch.cpp'"),
    "no recorded space": (("tune", "--space", "nosuch.csv"), "(.csv or .csv.gz): No such file or directory"),
    "no words": (("task", " ", "--to", "{task}.py", "--model", "local:m@http://127.0.0.1:9"), "no words"),
    "no model for words": (("task", "a softmax", "--to", "{task}.py"), "--model"),
    "not a number": (("optimize", "{task}", "--evaluations", "many"), "many"),
    "unknown flag": (("optimize", "{task}", "--nosuch"), "see `kernelwright optimize --help`"),
    "no target": (("optimize",), "TARGET is missing"),
    "unknown command": (("nosuch",), "nosuch"),
    "unknown run": (("show", "nosuch"), "nosuch"),
    "no such run to resume": (("resume", "nosuch"), "nosuch"),
    "no such run to export": (("export", "nosuch", "--to", "here"), "nosuch"),
    "a language for a candidate": (
        ("judge", "{task}", "{task}:double", "--language", "cobol"),
        "'cobol'; there are",
    ),
    "no candidate": (("judge", "{task}", "nosuch.py"), "nosuch.py"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence_and_exit_code_2(tmp_path, monkeypatch, capsys, case):
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "store"))
    files = {"empty": tmp_path / "empty.py", "text": tmp_path / "notes.txt", "task": tmp_path / "double.py"}
    for name, file in files.items():
        file.write_text(TASK if name == "task" else "")
    arguments, named = WRONG[case]
    assert main([a.format(**files) for a in arguments]) == 2
    said = capsys.readouterr()
    (sentence,) = said.err.splitlines()
    assert sentence.startswith("kernelwright: ") and named in sentence
    assert said.out == ""


def test_errors_are_events_too(tmp_path, capsys):
    code = main(["resume", "nosuch", "--json", "--store", str(tmp_path)])
    (line,) = capsys.readouterr().out.splitlines()
    event = json.loads(line)
    assert event["event"] == "error" and event["exit_code"] == code == 2
    assert "nosuch" in event["message"]


def test_a_store_where_none_can_be(program, tmp_path):
    (tmp_path / "file").write_text("")
    done = program("runs", "--store", tmp_path / "file" / "store")
    assert done.returncode == 1
    assert "--store" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_tool_that_is_missing_is_exit_code_4(program, tmp_path):
    (tmp_path / "double.py").write_text(TASK)
    done = program("optimize", tmp_path / "double.py", "--language", "cpp", KERNELWRIGHT_CXX="/nosuch/g++")
    assert done.returncode == 4, done.stderr
    assert "cpp" in done.stderr and len(done.stderr.splitlines()) == 1


def test_doctor_says_what_is_here(program):
    done = program("doctor", "--json")
    assert done.returncode == 0
    events = [json.loads(line) for line in done.stdout.splitlines()]
    areas = {e["area"] for e in events[:-1]}
    assert areas == {
        "python",
        "package",
        "device",
        "peaks",
        "language",
        "profiler",
        "sandbox",
        "browser",
        "store",
    }
    assert events[-1]["event"] == "result"
    assert all(e["remedy"] for e in events[:-1] if not e["ok"])


def test_runs_of_an_empty_store(program):
    assert "no runs" in program("runs").stdout
    assert json.loads(program("runs", "--json").stdout) == {"event": "result", "runs": 0}


def test_bound_names_the_binding_term(program, tmp_path):
    (tmp_path / "double.py").write_text(TASK)
    done = program("bound", tmp_path / "double.py", "--json")
    assert done.returncode == 0, done.stderr
    *bounds, result = [json.loads(line) for line in done.stdout.splitlines()]
    assert result["bounds"] == {b["workload"]: b["time_us"] for b in bounds}
    assert all(b["binding"] in {t["name"] for t in b["terms"]} for b in bounds)
    assert all(b["eager_us"] > 0 for b in bounds)


def test_admit_shows_the_mutants(tmp_path, capsys):
    (tmp_path / "double.py").write_text(TASK)
    assert main(["admit", str(tmp_path / "double.py"), "--json"]) == 0
    *mutants, result = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"zeros", "stale"} <= {m["mutant"] for m in mutants} and not result["degenerate"]


ENDING = """
import atexit, sys, threading
from kernelwright.cli import _app

_app.main = lambda: 7
atexit.register(lambda: print("at exit"))
print("said", end="")
WAIT
_app.program()
"""


@pytest.mark.parametrize(("wait", "said"), [
    ("", "saidat exit\n"),
    ("threading.Timer(0.3, lambda: print('a thread ', end='')).start()", "saida thread at exit\n"),
])  # fmt: skip
def test_the_program_ends_with_its_code_when_all_is_said(wait, said):
    done = subprocess.run(
        [sys.executable, "-c", ENDING.replace("WAIT", wait)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, said, "")
