import json

import pytest

from kernelwright.cli import main
from kernelwright.errors import InputError
from kernelwright.suites import Written, find_checkout, get_suite, how_to_get, suite_names, write
from kernelwright.suites.own import Row, task_text
from kernelwright.tasks import load_task
from kernelwright.testing import WrittenConformance


class TestAten(WrittenConformance):
    least, sampled = 300, 4

    def suite(self):
        return get_suite("aten")

    def test_three_hundred_operators_come_in_several_dtypes_and_layouts(self):
        rows = self.suite().rows()
        operators = {(r.group, r.code.rpartition("return ")[2].partition("(")[0]) for r in rows}
        assert len(operators) >= 300
        assert {r.sizes["dtype"] for r in rows} >= {
            "float32",
            "float64",
            "float16",
            "bfloat16",
            "int64",
        }
        layouts = [
            any(layout in d for d in r.arguments.values())
            for layout in ("transposed", "strided")
            for r in rows
        ]
        assert sum(layouts) >= 200


class TestScience(WrittenConformance):
    least = 10

    def suite(self):
        return get_suite("science")

    def test_ten_kinds_are_confirmed_at_sizes_of_their_own(self):
        rows = self.suite().rows()
        assert len({r.group for r in rows}) == 10
        assert all(r.held_out >= 2 for r in rows)


class TestScenarios(WrittenConformance):
    least = 50

    def suite(self):
        return get_suite("scenarios")


class TestQuant(WrittenConformance):
    least = 30

    def suite(self):
        return get_suite("quant")

    def test_each_has_one_of_four_contracts(self, tmp_path):
        rows = self.suite().rows()
        assert {r.group for r in rows} == {"exact", "scaled", "stochastic", "saturated"}
        assert all(f"Contract: {r.group}." in r.description for r in rows)
        for group in ("scaled", "stochastic"):
            path = tmp_path / f"{group}.py"
            path.write_text(task_text(next(r for r in rows if r.group == group), 5, "quant"))
            contract = load_task(path).contract
            assert (contract.numerics == "strict", contract.stochastic) == (
                group == "scaled",
                group == "stochastic",
            )


class TestTrain(WrittenConformance):
    least = 40

    def suite(self):
        return get_suite("train")


def test_every_suite_of_our_own_is_tested_here():
    own = {name for name in suite_names() if isinstance(get_suite(name), Written)}
    assert own == {"aten", "edits", "quant", "scenarios", "science", "train"}  # `edits` in test_own_edits.py


def test_sizes_are_drawn_in_their_ranges_and_steps():
    row = Row(
        "twice", "demo", "def _(x):\n    return x * 2", {"x": "float32[n, m]"}, {"n": (8, 40, 8), "m": 5},
        held_out=2,
    )  # fmt: skip
    drawn = set()
    for seed in range(12):
        scope = {
            "kw": type("Noted", (), {"task": staticmethod(lambda **given: lambda f: drawn.add(str(given)))})
        }
        text = task_text(row, seed, "demo")
        exec(text.replace("import kernelwright as kw", ""), scope)
    assert len(drawn) > 3
    assert all("'m': 5" in d and "confirm" in d for d in drawn)
    assert all(int(n) % 8 == 0 for d in drawn for n in __import__("re").findall(r"'n': (\d+)", d))


def test_write_draws_by_the_seed_and_keeps_what_is_there(tmp_path, capsys):
    words = ["suite", "write", "science", str(tmp_path / "here"), "--seed", "9", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["problems"] >= 10
    assert main(words) == 2
    assert "not empty" in capsys.readouterr().err
    assert main(["suite", "write", "kernelbench", str(tmp_path / "other")]) == 2
    assert "git clone" in capsys.readouterr().err
    assert main(["suite", "show", "science/fft/fft", "--data", str(tmp_path / "here")]) == 0
    assert "torch.fft.fft" in capsys.readouterr().out


def test_doctor_counts_what_was_caught(tmp_path, capsys):
    write(get_suite("train"), tmp_path, 0)
    words = ["suite", "doctor", "train", "--data", str(tmp_path), "--only", "step/sgd", "--admit", "--json"]
    assert main(words) == 0
    one, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert result["caught"] == result["tried"] == one["tried"] > 5
    assert one["moved_bytes"] > 0


def test_a_folder_in_use_is_not_written_into(tmp_path):
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(InputError, match="not empty"):
        write(get_suite("science"), tmp_path, 0)
    with pytest.raises(
        InputError, match=r"lacks science.json; get one with `kernelwright suite write science"
    ):
        find_checkout(get_suite("science"), tmp_path)
    assert how_to_get(get_suite("science")) == "kernelwright suite write science DIR --seed N"
