"""The README and every page of docs/ are run: Python blocks in order, console blocks as written."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import mktestdocs
import pytest
from tests import forked

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BOOTSTRAP = "python3 bootstrap.py "
"""Lines that start so set a machine up; CI runs one of them and `benchmarks.first_run` the other."""

SHORTER = {"--evaluations 3": "--evaluations 1", "--minutes 1": "--minutes 0.5"}
"""Budgets of a reader that a test need not spend: the same command, with less to do."""


def console_commands(page: Path) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [
        line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")
    ]
    return [line for line in lines if not line.startswith(BOOTSTRAP)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    mktestdocs.check_md_file(fpath=page, memory=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if console_commands(p)], ids=lambda p: p.name)
def test_console_blocks(page: Path, tmp_path: Path) -> None:
    store = {**os.environ, "KERNELWRIGHT_STORE": str(tmp_path / "store")}
    for command in console_commands(page):
        for long, short in SHORTER.items():
            command = command.replace(long, short)
        words = [w.replace("/tmp/", f"{tmp_path}/") for w in shlex.split(command)]
        if words[0] == "kernelwright":
            done = forked.run(["-m", *words], cwd=ROOT, env=store)
        else:
            words[0] = sys.executable if words[0] == "python" else words[0]
            done = subprocess.run(words, cwd=ROOT, env=store, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}, which does not exist"


def test_every_figure_of_a_gpu_says_how_it_came() -> None:
    rows = sorted(
        path for card in ("h100", "h200") for path in (ROOT / "benchmarks" / "results" / card).glob("*.jsonl")
    )
    told = (
        (ROOT / "docs" / "bundle.md")
        .read_text()
        .partition("## Where the figures of GPUs come from")[2]
        .splitlines()
    )
    for path in rows:
        name = f"`{path.parent.name}/{path.stem}`"
        line = [words for words in told if name in words]
        by_bundle = "of a bundle" in json.loads(path.read_text().splitlines()[0])["command"]
        assert len(line) == 1, name
        assert ("a bundle, imported" in line[0]) == by_bundle, name
