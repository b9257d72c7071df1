import json

from kernelwright import flow
from kernelwright.cli import main


def test_they_are_listed_and_shown(capsys):
    assert main(["recipes", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1] == {"event": "result", "recipes": len(lines) - 1}
    assert "k-search" in {line.get("name") for line in lines}
    assert main(["recipes", "k-search"]) == 0
    assert "not reproduced:" in capsys.readouterr().out


def test_a_name_that_is_none_is_one_sentence(capsys):
    assert main(["recipes", "nope"]) == 2
    assert "no recipe is called 'nope'; there are" in capsys.readouterr().err


def test_optimize_follows_a_recipe_and_flags_count_more(asked):
    words = ["optimize", "a.py", "--recipe", "astra", "--model", "local:m@http://127.0.0.1:1/v1"]
    assert main(words) == 130
    assert asked["strategy"] == "greedy" and asked["editors"] == ("llm",) and asked["proposers"] == ("start",)
    assert asked["more"]["strategy.patience"] == 5 and asked["more"]["models"] == (
        "local:m@http://127.0.0.1:1/v1",
    )
    assert main([*words, "--strategy", "beam", "--proposer", "library"]) == 130
    assert asked["strategy"] == "beam" and asked["proposers"] == ("library",)


def test_without_a_model_it_begins_with_what_needs_none(asked):
    assert main(["optimize", "a.py", "--recipe", "astra"]) == 130
    assert asked["proposers"] == flow.PROPOSERS
