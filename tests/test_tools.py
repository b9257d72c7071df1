"""What is optional has one table: no test skips by another way, and the table agrees with what the program finds."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools import TOOL_OF, TOOLS, is_here, require, untested

from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.languages.cpp import Cpp
from kernelwright.propose.agent._attempt import can_confine
from kernelwright.sandbox import Pool

TESTS = Path(__file__).parent
SKIPPING = {"skip", "skipif", "importorskip", "xfail", "skipTest", "skipIf", "skipUnless", "collect_ignore"}
OWN_WAY = {
    "test_tools.py": SKIPPING,  # tries the table
    "adversarial/test_exploits.py": {
        "xfail"
    },  # exploits that say themselves that nothing catches them, and why
}
"""Files that have another way than the table, and which."""


ASKING = {"needs", "require", "is_here"}
"""Names of what asks for tools."""


def _nodes(text: str, words: set[str]) -> Iterator[ast.AST]:
    """Parse a file in which one of the words stands: most have none, and to parse all takes seconds."""
    return ast.walk(ast.parse(text)) if any(word in text for word in words) else iter(())


def ways_to_skip(text: str) -> set[str]:
    """Name what a test file calls, names or sets that skips tests."""
    found = set()
    for node in _nodes(text, SKIPPING):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id.removesuffix("_glob"))
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return found & SKIPPING


def tools_asked_for(text: str) -> set[str]:
    """Name the tools that a test file gives to `needs` or `require` as words."""
    found = set()
    for node in _nodes(text, ASKING):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ASKING:
                found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return found


def test_every_test_skips_by_the_table_only() -> None:
    for path in {*TESTS.rglob("test_*.py"), *TESTS.rglob("conftest.py")}:
        text, name = path.read_text(), path.relative_to(TESTS).as_posix()
        others = ways_to_skip(text) - OWN_WAY.get(name, set())
        assert not others, f"{name} skips by {others}; ask for a tool of tests/tools.py: {sorted(TOOLS)}"
        assert tools_asked_for(text) - {"clang19"} <= TOOLS.keys(), name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pytest\n@pytest.mark.skipif(True, reason='')\ndef test_it(): ...", {"skipif"}),
        ("from pytest import importorskip\nimportorskip('x')", {"importorskip"}),
        ("collect_ignore_glob = ['*']", {"collect_ignore"}),
        ("import pytest\n@pytest.mark.needs('clang')\ndef test_it(): ...", set()),
    ],
)
def test_another_way_is_seen(text: str, found: set[str]) -> None:
    assert ways_to_skip(text) == found


def test_a_reason_names_its_tool_and_what_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tools.is_here", lambda name: name != "clang")
    with pytest.raises(pytest.skip.Exception) as skipped:
        require("g++", "clang", "node")
    assert str(skipped.value) == "clang: no clang++ on the PATH"
    assert untested(str(skipped.value)).endswith(
        "not tested: C++ kernels as clang compiles them, for ARM too"
    )
    assert untested("of its own") == "of its own"


def test_a_tool_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        require("clang19")


def test_no_two_tools_have_one_reason() -> None:
    assert len({tool.reason for tool in TOOLS.values()}) == len(TOOLS)


def test_the_program_finds_what_the_table_finds(tmp_path: Path) -> None:
    """A probe of the program that came to find nothing would skip its own tests."""
    assert Cpp().available().ok == is_here("C++ compiler")
    assert get_language("triton").available().ok == is_here("triton")
    assert get_language("cuda").available().ok or shutil.which("nvcc") is None
    assert can_confine() == is_here("bwrap")
    assert is_here("pyopencl") or not is_here(TOOL_OF["opencl"])
    with Pool(Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)}), arena_bytes=1 << 20) as pool:
        assert ("seccomp" in pool.layers) == (pool.isolation != "none" and is_here("system call filter"))
        assert ("pid-namespace" in pool.layers) == (pool.isolation != "none" and is_here("PID namespaces"))


def test_a_skip_by_the_table_is_told_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        "import pytest, tests.tools as t\n"
        "t.is_here = lambda name: False\n"
        "@pytest.fixture\ndef costly(): raise AssertionError\n"
        "@pytest.mark.needs('perf events')\ndef test_one(costly): ...\n"
        "@pytest.mark.needs('perf events')\ndef test_three(): ...\n"
        "def test_two(): ...\n"
        "def test_four():\n"
        "    from kernelwright.languages.cpp import Cpp\n"
        "    try: Cpp().build(None)\n"
        "    except Exception: ...\n"
        "    assert False, 'built without a compiler'\n"
    )
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {TESTS.parent}\nmarkers = needs(*tools): x\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
        env={**os.environ, "PATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    said = ran.stdout.partition("promises not tested here")[2]
    assert "perf events: perf_event_open is not allowed; not tested: counters" in said
    assert "(2 tests)" in said
    assert "C++ compiler: neither g++ nor clang++ on the PATH; not tested: all C++ kernels (1 test)" in said
