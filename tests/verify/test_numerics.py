"""What `strict`, `native` and `fast` let a kernel do, on kernels that are off by as much as is written in them."""

import pytest

from kernelwright.cli import main
from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import ALLOWED, NUMERICS, Candidate, Contract, SourceFile
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import verify

TASK = """
import torch
import kernelwright as kw


@kw.task(x="float32[rows, columns]", workloads=[{"rows": 16, "columns": 64}])
def exponentials(x):
    return torch.exp(x)
"""
OFF = "import torch\ndef run(x):\n    return torch.exp(x) * (1 + {units} * 2.0**-23)\n"
"""Off by so many units in the last place of every element."""
NARROW = "import torch\ndef run(x):\n    return torch.exp(x.bfloat16()).float()\n"


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("numerics"))
    with Pool(Settings.from_environment({"KERNELWRIGHT_CACHE": folder}), arena_bytes=16 << 20) as pool:
        yield pool


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "exponentials.py"
    path.write_text(TASK)
    return path


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        (OFF.format(units=1), {"strict", "native", "fast"}),
        (OFF.format(units=6), {"native", "fast"}),
        (OFF.format(units=30), {"fast"}),
        (OFF.format(units=300), set()),
        (NARROW, set()),
    ],
    ids=["one unit", "six units", "thirty units", "three hundred units", "in bfloat16"],
)
def test_each_allows_what_it_says_and_none_fewer_bits(path, pool, text, accepted):
    source = SourceFile(path="c.py", text=text)
    candidate = Candidate(sources=(source,), language="torch", entry="c.py:run")
    build = get_language("torch").build(candidate)
    found = set()
    for name in NUMERICS:
        problem = Problem(load_task(path, contract=Contract().under(name)))
        verdict = verify(problem, candidate, build, pool=pool, depth="screen")
        found |= {name} if verdict.status == "accepted" else set()
        assert verdict.status == "accepted" or verdict.failure == "correct"
    assert found == accepted


def test_a_contract_knows_its_choice_and_keeps_all_else():
    mine = Contract(least_effect=0.5, calls="custom-only")
    for name in NUMERICS:
        chosen = mine.under(name)
        assert chosen.numerics == name and (chosen.least_effect, chosen.calls) == (0.5, "custom-only")
    assert Contract().numerics == "native" and Contract(error_cap=0.5).numerics == ""
    assert ALLOWED.keys() == {*NUMERICS, ""}


def test_the_flag_is_of_the_task_and_of_the_command_that_repeats_it(path, tmp_path, capsys):
    (tmp_path / "c.py").write_text(OFF.format(units=30))
    words = [
        "judge",
        str(path),
        str(tmp_path / "c.py"),
        "--store",
        str(tmp_path / "s"),
        "--screen",
        "--baseline",
        "eager",
    ]
    assert main([*words, "--json"]) == 1
    assert "correct" in capsys.readouterr().out
    assert main([*words, "--json", "--numerics", "fast"]) == 0
    assert "--numerics fast" in capsys.readouterr().out


@pytest.mark.parametrize("narrow", [False, True])
def test_a_reference_without_a_float64_form_is_told(tmp_path, pool, narrow):
    refuses = "    if x.dtype == torch.float64: raise RuntimeError('float32 only')\n"
    path = tmp_path / "task.py"
    path.write_text(TASK.replace("    return", f"{refuses if narrow else ''}    return"))
    source = SourceFile(path="c.py", text=OFF.format(units=0))
    candidate = Candidate(sources=(source,), language="torch", entry="c.py:run")
    build = get_language("torch").build(candidate)
    verdict = verify(Problem(load_task(path)), candidate, build, pool=pool, depth="screen")
    assert verdict.status == "accepted"
    assert verdict.in_float32 == narrow
