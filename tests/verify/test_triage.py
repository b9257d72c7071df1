"""What stands out in a source is told with its line, and nothing is rejected for it."""

import pytest

from kernelwright.records import Candidate, SourceFile
from kernelwright.verify._triage import triage


def told(text, path="k.py"):
    return triage(Candidate(sources=(SourceFile(path=path, text=text),), language="torch", entry="k.py:run"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sys._getframe(1)", "suspect: looks into other code (k.py:3)"),
        ("torch.allclose = print", "suspect: changes another module (k.py:3)"),
        ("setattr(torch, 'allclose', print)", "suspect: changes another module (k.py:3)"),
        ("os._exit(0)", "suspect: ends the process (k.py:3)"),
        ("exec('pass')", "suspect: runs text as code (k.py:3)"),
        ("kept[x.data_ptr()] = x", "note: asks for addresses or versions (k.py:3)"),
        ("time.perf_counter()", "note: reads a clock (k.py:3)"),
        ("torch.relu(x)", ""),
        ("x.out = 1", ""),
    ],
)
def test_a_rule_names_the_line(line, message):
    found = told(f"import os, sys, time, torch\ndef run(x):\n    {line}\n    return x\n")
    assert (found.status, found.message) == ("pass", message)


def test_what_is_suspect_comes_first_once_and_is_counted():
    found = told("import os, time\nt = time.time()\nu = time.time()\nos._exit(0)\nos.fork()\n")
    assert found.message.startswith(
        "suspect: ends the process (k.py:4); suspect: starts processes (k.py:5); note:"
    )
    assert found.figures == {"suspect": 2.0, "note": 1.0}


def test_an_answer_in_spite_of_an_exception_is_noted():
    assert (
        "in spite of"
        in told("def run(x):\n    try:\n        f(x)\n    except Exception:\n        return x\n").message
    )


@pytest.mark.parametrize(("text", "path"), [("def run(:", "k.py"), ("os._exit(0)", "k.cpp"), ("\0", "k.py")])
def test_what_cannot_be_read_says_nothing(text, path):
    assert told(text, path).message == ""


def test_a_source_made_to_exhaust_its_reader_costs_nothing():
    assert "addresses" in told("f" + "()" * 1500 + "._version").message
    assert "addresses" in told("(" + "x + " * 1500 + "x)._version").message
    assert told("x" + ".a" * 2500).message == ""
    told("[" * 5000 + "]" * 5000)
