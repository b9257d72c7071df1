import json

import pytest

from kernelwright.cli import main


def test_they_are_listed_and_shown_with_their_settings(capsys):
    assert main(["strategies", "--json"]) == 0
    *lines, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert last == {"event": "result", "strategies": len(lines)}
    (evolve,) = [line for line in lines if line["name"] == "evolve"]
    assert {"name": "islands", "default": 3, "what": "How many."} in evolve["settings"]
    assert all(s["what"] for line in lines for s in line["settings"]), "every setting says what it means"
    assert main(["strategies"]) == 0
    assert "islands=3" in capsys.readouterr().out
    assert main(["strategies", "uct"]) == 0
    assert "Weight of rarely visited nodes" in capsys.readouterr().out


def test_settings_go_with_the_run_in_their_type(asked):
    words = ["optimize", "a.py", "--editor", "llm", "--strategy", "evolve"]
    assert main([*words, "--set", "islands=4", "--set", "merging=1"]) == 130
    assert asked["more"] == {"strategy.islands": 4, "strategy.merging": 1.0}


def test_a_recipe_s_settings_are_of_its_own_strategy(asked):
    words = ["optimize", "a.py", "--recipe", "astra"]
    assert main([*words, "--set", "climbs=2"]) == 130
    assert asked["more"]["strategy.climbs"] == 2 and asked["more"]["strategy.patience"] == 5
    assert main([*words, "--strategy", "beam"]) == 130
    assert not [name for name in asked["more"] if name.startswith("strategy.")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--editor", "llm", "--set", "island=4"], "no setting 'island'; it has islands=3, size=12"),
        (["--editor", "llm", "--set", "islands"], "has no value; expected NAME=VALUE"),
        (["--editor", "llm", "--set", "islands=four"], "is 'four'; expected int, such as 3"),
        (["--set", "islands=4"], "needs an editor; add --editor NAME"),
    ],
)
def test_what_is_no_setting_is_said_with_those_there_are(asked, capsys, words, said):
    assert main(["optimize", "a.py", *words]) == 2
    assert said in capsys.readouterr().err and not asked
