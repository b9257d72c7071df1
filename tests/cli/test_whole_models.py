"""`optimize` and `plan` with a whole model: what they take, and that the rest is refused."""

from pathlib import Path

import pytest

from kernelwright import models
from kernelwright.cli import main
from kernelwright.errors import InputError

MODEL = str(Path(__file__).parents[2] / "examples" / "small_transformer.py") + ":build"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--evaluations", "3"], "--evaluations"),
        (["--seed", "5"], "--seed"),
        (["--no-learn"], "--no-learn"),
        (["--calls", "custom-only"], "--calls"),
        (["--max-elements", "1000"], "how a task is loaded"),
        (["--usd", "1"], "--model and what goes with it"),
        (["--recipe", "greedy"], "--recipe"),
    ],
)
def test_a_flag_for_single_ops_is_refused(flags, named, tmp_path, capsys):
    assert main(["optimize", MODEL, *flags, "--store", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"{named} is for single ops; a whole model takes --minutes" in said


def test_numerics_go_with_the_model(monkeypatch, tmp_path, capsys):
    def refused(target, **given):
        raise InputError(f"asked for {given['numerics']}")

    monkeypatch.setattr(models, "optimize_model", refused)
    assert main(["optimize", MODEL, "--numerics", "fast", "--store", str(tmp_path)]) == 2
    assert "asked for fast" in capsys.readouterr().err


def test_what_is_no_model_is_said_to_be_none(tmp_path, capsys):
    assert main(["optimize", "nosuch.pt2", "--store", str(tmp_path)]) == 2
    assert "nosuch.pt2" in capsys.readouterr().err
    assert main(["plan", "examples/swiglu.py:nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err
