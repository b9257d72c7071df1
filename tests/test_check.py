"""`check.py bare` hides the optional tools and nothing else; a run tells what it could not test."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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
    for name in ("bwrap", "clang++", "clang-19", "perf", "g++"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    _check().link_tools(os.pathsep.join(["", str(tools), str(tmp_path / "none")]), links)
    assert shutil.which("g++", path=str(links)) == str(links / "g++")
    assert [p.name for p in links.iterdir()] == ["g++"]


def test_a_run_tells_what_it_could_not_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.skip(reason='no such tool')\ndef test_one(): ...\ndef test_two(): ...\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.partition("promises not tested here")[2]
    assert "no such tool (1)" in said
