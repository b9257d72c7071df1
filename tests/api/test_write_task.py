"""Words become a task file, which is checked without being run and asked for again where it is none."""

import json

import pytest

from kernelwright.api.write_task import task_in, write_task
from kernelwright.cli import main
from kernelwright.errors import ModelError
from kernelwright.propose.llm._replies import ReplyError
from kernelwright.store import Calls, Store
from kernelwright.testing import ScriptedModel

FILE = """import torch

import kernelwright as kw


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 8, "dim": 16}])
def centred(x):
    \"\"\"Rows less their mean.\"\"\"
    return x - x.mean(-1, keepdim=True)
"""
ANSWER = f"Here it is:\n```python\n{FILE}```\n"
WORDS = "take the mean off every row of a float32 matrix"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_words_become_a_task_file_and_the_call_is_in_the_ledger(tmp_path, capsys):
    to, words = tmp_path / "tasks" / "centred.py", tmp_path / "words.md"
    words.write_text(WORDS)
    with ScriptedModel([ANSWER]) as server:
        flags = [
            "--to",
            str(to),
            "--model",
            server.name(),
            "--price",
            "3,15",
            "--usd",
            "1",
            "--store",
            str(tmp_path),
        ]
        assert main(["task", str(words), *flags, "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert to.read_text() == FILE and said["target"] == f"{to}:centred"
    (asked,) = server.asked
    assert asked.last == WORDS and "declared as `dtype[sizes] words`" in asked.text, "it is told the form"
    with Calls(tmp_path) as calls:
        (call,) = calls.of_run(said["run"])
    assert call.usd == said["usd"] == pytest.approx((100 * 3 + 50 * 15) / 1e6)
    for command in (["runs"], ["show", "last"]):
        assert main([*command, "--store", str(tmp_path)]) == 0
    assert "from words" in capsys.readouterr().out
    assert main(["show", "last", "--transcript", "--store", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "task from words: asked" in shown and WORDS in shown and ANSWER in shown
    assert main(["show", "last", "--transcript", "--json", "--store", str(tmp_path)]) == 0
    (line, _) = map(json.loads, capsys.readouterr().out.splitlines())
    assert line["event"] == "call" and json.loads(line["reply"])["text"] == ANSWER
    assert main(["resume", "last", "--store", str(tmp_path)]) == 2
    assert "searched nothing" in capsys.readouterr().err


def test_nothing_is_written_over_and_a_model_is_needed(tmp_path, capsys):
    to = tmp_path / "there.py"
    to.write_text("mine")
    assert main(["task", WORDS, "--to", str(to), "--store", str(tmp_path)]) == 2
    assert to.read_text() == "mine" and "there already" in capsys.readouterr().err
    assert main(["task", WORDS, "--to", str(tmp_path / "new.py"), "--store", str(tmp_path)]) != 0
    assert "--model" in capsys.readouterr().err and not (tmp_path / "new.py").exists()


@pytest.mark.parametrize("words", [WORDS, "softmax.md"])
def test_words_where_a_task_is_asked_for_are_told_how_to_become_one(words, capsys):
    assert main(["optimize", words]) == 2
    assert "kernelwright task WORDS --to FILE.py" in capsys.readouterr().err


def test_a_person_sees_what_was_understood(tmp_path, capsys):
    (tmp_path / "centred.py").write_text(FILE.replace('dim]"', 'dim] uniform(0, 1)"'))
    assert main(["describe", str(tmp_path / "centred.py")]) == 0
    said = capsys.readouterr().out
    assert "rows=8,dim=16: takes x float32[8, 16]" in said and "gives output0 float32[8, 16]" in said
    assert "calls=anything" in said and "else as by default" in said and "error_factor=" not in said
    assert "return x - x.mean" in said and "{'" not in said
    assert main(["describe", str(tmp_path / "centred.py"), "--verbose"]) == 0
    assert "error_factor=" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "to", "complaint"),
    [("none.md", "new.py", "cannot be read"), (WORDS, "file/new.py", "cannot be written")],
)
def test_files_are_looked_at_before_a_model_is_paid(tmp_path, monkeypatch, capsys, words, to, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no folder")
    with ScriptedModel([ANSWER]) as server:
        flags = ["--to", to, "--model", server.name(), "--store", str(tmp_path)]
        assert main(["task", words, *flags]) == 2
        assert not server.asked
    assert complaint in capsys.readouterr().err


def test_an_answer_that_is_no_task_is_asked_for_again_with_the_complaint(tmp_path):
    with ScriptedModel(["```python\nx = 1\n```", ANSWER]) as server:
        written = write_task(WORDS, options={"models": (server.name(),)}, usd=None, store=tmp_path)
        assert written.name == "centred" and written.text == FILE
        assert "0 functions under @kw.task" in server.asked[1].last
    with (
        ScriptedModel(["I would rather not."]) as server,
        pytest.raises(ModelError, match="no answer was a task"),
    ):
        write_task(WORDS, options={"models": (server.name(),)}, usd=None, store=tmp_path)
    with Store(tmp_path) as store:
        assert {run.status for run in store.runs()} == {"finished"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def f(:", "not Python"),
        ("x = " + "[" * 5000, "not Python"),
        ("import os\n" + FILE, "imports os"),
        (FILE.replace("    return", "    from subprocess import run\n    return"), "imports subprocess"),
        (FILE + "\nprint(1)\n", "no import, function or constant"),
        (FILE.replace("workloads", "hidden=[], workloads"), "given hidden"),
        (FILE + FILE.partition("import kernelwright as kw")[2], "2 functions"),
    ],
)  # fmt: skip
def test_what_is_no_plain_task_is_refused_unrun(text, complaint):
    with pytest.raises(ReplyError, match=complaint):
        task_in(text)


@pytest.mark.parametrize("reaching", ["open('x').read()", "torch.load('x')", "eval('x')"])
def test_a_task_computes_from_its_arguments_alone(reaching):
    with pytest.raises(ReplyError, match="compute from the arguments alone"):
        task_in(FILE.replace("return x", f"return {reaching} + x"))
