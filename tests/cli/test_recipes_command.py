import json

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
