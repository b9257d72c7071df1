"""`check.py` chooses what exists, and `bare` hides the optional tools and nothing else."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tests.conftest import LONGEST, pytest_collection_modifyitems, pytest_itemcollected

ROOT = Path(__file__).resolve().parents[1]


def _check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check", ROOT / "check.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_optional_tools_are_hidden_and_the_others_found(tmp_path: Path) -> None:
    tools, links = tmp_path / "tools", tmp_path / "links"
    tools.mkdir()
    links.mkdir()
    for name in ("bwrap", "clang++", "clang-19", "perf", "nvcc", "node", "objdump", "qemu-aarch64", "g++"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    _check().link_tools(os.pathsep.join(["", str(tools), str(tmp_path / "none")]), links)
    assert shutil.which("g++", path=str(links)) == str(links / "g++")
    assert [p.name for p in links.iterdir()] == ["g++"]


def test_what_is_named_exists() -> None:
    check = _check()
    named = (*check.QUICK_TESTS, *check.LAYERS)
    assert [p for p in named if not (ROOT / p.partition("::")[0]).exists()] == []
    assert [n for n in check.SLICE if not any((ROOT / "tests/adversarial/exploits").glob(f"{n}.*"))] == []
    modules = {module for module, *_ in check.LONG.values()} - {"pytest", "kernelwright"}
    assert [m for m in modules if not (ROOT / f"{m.replace('.', '/')}.py").exists()] == []


def test_an_unknown_step_or_battery_is_explained() -> None:
    for words, expected in (
        (["nothing"], "bare, long, --quick"),
        (["long", "nothing"], "naive, benign, ops, compiler"),
    ):
        command = [sys.executable, str(ROOT / "check.py"), *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 2
        assert expected in ran.stderr


def test_what_takes_longest_comes_first_and_nothing_is_left_out() -> None:
    assert [name for name in LONGEST if not (ROOT / "tests" / name).exists()] == []
    names = ["store/test_store.py", LONGEST[1], "bound/test_bound.py", LONGEST[0]]
    items = [SimpleNamespace(path=ROOT / "tests" / name) for name in names]
    pytest_collection_modifyitems(items)
    found = [item.path.relative_to(ROOT / "tests").as_posix() for item in items]
    assert found == [LONGEST[0], LONGEST[1], names[0], names[2]]


def test_a_battery_runs_every_test_that_takes_long() -> None:
    ran = [words for words in _check().LONG.values() if words[0] == "pytest"]
    folders = [ROOT / word for words in ran for word in words if word.startswith("tests/")]
    marked = {p for p in (ROOT / "tests").rglob("*.py") if "mark.long" in p.read_text()} - {Path(__file__)}
    assert marked
    assert [p for p in marked if not any(p.is_relative_to(folder) for folder in folders)] == []


def test_no_test_is_marked_alone_where_check_does_not_read_it(tmp_path: Path) -> None:
    assert "tests/measure/test_bench.py" in _check().ALONE
    item = SimpleNamespace(path=tmp_path / "test_it.py", get_closest_marker=lambda name: name == "alone")
    item.path.write_text("@pytest.mark.alone\n")
    pytest_itemcollected(item)
    item.path.write_text("pytestmark = marks_of_others\n")
    with pytest.raises(pytest.UsageError, match="write pytest"):
        pytest_itemcollected(item)


def test_something_runs_meanwhile_and_ends_with_the_step(tmp_path: Path) -> None:
    check, begun = _check(), tmp_path / "begun"
    waits = [sys.executable, "-c", f"open({str(begun)!r}, 'x').close(); import time; time.sleep(60)"]
    started = time.monotonic()
    with check.meanwhile(waits):
        while not begun.exists():
            time.sleep(0.01)
    with check.meanwhile([]):
        assert time.monotonic() - started < 30


def test_files_that_are_named_are_run_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    check, ran = _check(), []
    monkeypatch.setattr(
        check.subprocess, "run", lambda words, **_: ran.append(words) or SimpleNamespace(returncode=0)
    )
    check.run({"tests": check.STEPS["tests"]}, ["tests/store"])
    assert [[w for w in words if w.startswith("tests")] for words in ran] == [["tests/store"]] * 2
    check.run({"tests": check.STEPS["tests"]}, ["-k", "softmax"])
    assert ran[2][-len(check.ALONE) - 2 : -2] == check.ALONE and ran[3][-2:] == ["-k", "softmax"]
