"""`optimize` and `plan` with a whole model: what they take, and that the rest is refused."""

from pathlib import Path

import pytest

from kernelwright.cli import main

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


def test_what_is_no_model_is_said_to_be_none(tmp_path, capsys):
    assert main(["optimize", "nosuch.pt2", "--store", str(tmp_path)]) == 2
    assert "nosuch.pt2" in capsys.readouterr().err
    assert main(["plan", "examples/swiglu.py:nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err
