"""The command: two files, one verdict."""

import json

import pytest

from kernelwright.cli import main

MODEL = """
import torch
from torch import nn
from kernelwright.models.drift import Deployment, top_p

class Block(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.linear, self.gelu = nn.Linear(8, 8), nn.GELU(approximate=form)
    def forward(self, x):
        return x + self.gelu(self.linear(x))

def made(form):
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(16, 8), Block("none"), Block(form), nn.Linear(8, 16))

def build():
    return made("none"), (torch.zeros(1, 4, dtype=torch.long),)

def tanh():
    return made("tanh")

def cold():
    return Deployment(made("none"), top_p(0.9, 0.5))

def warm():
    return Deployment(made("none"), top_p(0.9))

def broken():
    raise RuntimeError("no weights")

def nothing():
    return 7
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


SHORT = ["--lengths", "3", "5", "--steps", "2", "--draws", "6"]


def test_the_same_model_is_the_same(file, capsys):
    assert main(["drift", file, f"{file}:build", *SHORT]) == 0
    said = capsys.readouterr().out
    assert said.startswith("same: ")
    assert "greedy text: 2 of 2 the same" in said


def test_a_drift_is_named_with_its_layer(file, capsys):
    assert main(["drift", file, f"{file}:tanh", *SHORT]) == 1
    assert "cause: 2.gelu (GELU)" in capsys.readouterr().out


def test_the_record_and_given_requests(file, tmp_path, capsys):
    requests = tmp_path / "requests.json"
    requests.write_text("[[1, 2, 3], [4, 5, 6, 7, 8]]")
    assert main(["drift", file, f"{file}:tanh", "--requests", str(requests), "--draws", "6", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["cause"]["path"]) == ("drifted", "2.gelu")
    assert found["perplexity"]["items"] == 2


def test_samplers_are_compared_where_both_have_one(file, capsys):
    assert main(["drift", f"{file}:warm", f"{file}:cold", *SHORT]) == 1
    assert "the sampler chooses token" in capsys.readouterr().out
    assert main(["drift", f"{file}:warm", f"{file}:warm", *SHORT]) == 0


@pytest.mark.parametrize(
    ("sides", "flags", "words"),
    [
        (("nosuch.py", "{file}"), [], "does not exist"),
        (("{file}:nosuch", "{file}"), [], "has no 'nosuch'"),
        (("{file}:broken", "{file}"), [], "raised RuntimeError: no weights"),
        (("{file}", "{file}:nothing"), [], "a model is int"),
        (("model", "{file}"), [], "is no model"),
        (("{file}", "{file}"), ["--draws", "2"], "at least 4"),
        (("{file}", "{file}"), ["--lengths", "1"], "at least 2"),
        (("{file}", "{file}"), ["--requests", "{bad}"], "expected a list of lists of tokens"),
        (("{file}", "{file}"), ["--requests", "{far}"], "99"),
    ],
)
def test_bad_input_is_one_sentence(file, tmp_path, capsys, sides, flags, words):
    bad, far = tmp_path / "bad.json", tmp_path / "far.json"
    bad.write_text('{"a": 1}')
    far.write_text("[[1, 2, 99]]")
    given = [text.format(file=file, bad=bad, far=far) for text in (*sides, *flags)]
    assert main(["drift", *given]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and words in said
