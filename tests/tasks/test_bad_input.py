"""Bad input ends in one clear sentence."""

from pathlib import Path

import pytest

from kernelwright.errors import InputError, TaskError
from kernelwright.tasks import Problem, load_task

HEAD = "import torch, torch.nn as nn\nimport kernelwright as kw\n"
MODEL = "class Model(nn.Module):\n    def forward(self, x): return x + 1\n"
INPUTS = "def get_inputs(): return [torch.rand(8)]\n"
OWN = "@kw.task(x='float32[n]', workloads=[{'n': 8}])\ndef %s(x): return x + 1\n"


@pytest.mark.parametrize(
    ("text", "symbol", "message"),
    [
        ("def f(:\n", "", r"line 1 is not Python"),
        ("import nothing_of_that_name\n", "", "could not be run: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "", "could not be run: SystemExit"),
        (HEAD + INPUTS, "", "defines no 'Model'"),
        (HEAD + MODEL, "", "defines no 'get_inputs'"),
        (
            HEAD + MODEL + "def get_inputs(): raise ValueError('no data')\n",
            "",
            r"get_inputs\(\) raised ValueError: no data",
        ),
        (HEAD + MODEL + "def get_inputs(): return [object()]\n", "", r"get_inputs\(\) returned a object"),
        (
            HEAD + MODEL + INPUTS + "def get_init_inputs(): return [1]\n",
            "",
            r"Model\(\*get_init_inputs\(\)\) raised TypeError",
        ),
        (HEAD + "def Model(): return 3\n" + INPUTS, "", "expected a torch.nn.Module"),
        (
            HEAD + MODEL.replace("x + 1", "x @ x @ x[None, None]") + INPUTS,
            "",
            r"forward\(\) raised RuntimeError",
        ),
        (HEAD + MODEL.replace("x + 1", "'text'") + INPUTS, "", "returned a str; expected tensors"),
        (HEAD + MODEL.replace("x + 1", "None") + INPUTS, "", "returned no tensor"),
        (HEAD + OWN % "a", "b", "has no task 'b'; there are a"),
        (HEAD + OWN % "a" + OWN % "b", "", r"has 2 tasks; name one: .*:a, .*:b"),
        (HEAD + (OWN % "a").replace("x + 1", "1 / 0"), "", r"a\(\) raised ZeroDivisionError"),
    ],
)
def test_one_sentence(tmp_path: Path, text: str, symbol: str, message: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(text)
    with pytest.raises(TaskError, match=message) as caught:
        load_task(f"{file}:{symbol}" if symbol else file)
    assert "\n" not in str(caught.value)


def test_a_script_that_loads_itself_is_told_where_to_put_that(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        HEAD + OWN % "a" + f"from kernelwright.tasks import load_task\nload_task({str(file)!r})\n"
    )
    with pytest.raises(
        TaskError, match=r"script\.py asks for .* under `if __name__ == '__main__':`$"
    ) as caught:
        load_task(file)
    assert str(caught.value).count("script.py") == 1
    file.write_text(HEAD + OWN % "a")
    assert load_task(file).name == "a"


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="does not exist"):
        load_task(tmp_path / "none.py")
    (tmp_path / "softmax.py").write_text("")
    with pytest.raises(TaskError, match=r"sofmax\.py' does not exist; did you mean '.*softmax\.py'"):
        load_task(tmp_path / "sofmax.py")
    for name, message in (
        ("notes.txt", "is said in words"),
        ("notes.csv", r"is no task; expected a \.py or \.json"),
    ):
        (tmp_path / name).write_text("hello")
        with pytest.raises(TaskError, match=message):
            load_task(tmp_path / name)
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError, match="not UTF-8"):
        load_task(tmp_path / "binary.py")


def test_named_functions_among_several(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(HEAD + OWN % "a" + OWN % "b")
    assert load_task(f"{file}:b").name == "b"


def test_a_limit_that_cannot_be_met(tmp_path: Path) -> None:
    file = tmp_path / "small.py"
    file.write_text(HEAD + MODEL + INPUTS)
    with pytest.raises(TaskError, match="cannot shrink below 16 elements"):
        load_task(file, max_elements=4)


def test_an_unknown_baseline(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(HEAD + OWN % "a")
    problem = Problem(load_task(file))
    with pytest.raises(
        InputError,
        match="no baseline is called 'fastest'; there are compile, compile-freezing, compile-max-autotune",
    ):
        problem.baseline("fastest", problem.task.workloads[0])


def test_a_reference_that_hangs_is_said_to(tmp_path):
    path = tmp_path / "hangs.py"
    path.write_text(HEAD + MODEL.replace("return x + 1", "import time; time.sleep(600)") + INPUTS)
    with pytest.raises(TaskError, match=r"not loaded within 0\.002 minutes: its reference hangs"):
        load_task(path, minutes=0.002)
