"""Every test starts from the same random state; what was skipped is told at the end of a run."""

import contextlib
import gc
import os
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from tests.split_zygotes import REAL, split_zygotes
from tests.tools import is_here, require, untested

from kernelwright.config import Settings
from kernelwright.languages import _precompiled

LONGEST = (
    "adversarial/test_exploits.py",
    "docs/test_documents.py",
    "benign/test_benign.py",
    "sandbox/test_promises.py",
    "cli/test_main_job.py",
    "sandbox/test_pool.py",
    "sandbox/test_hostile.py",
)
"""Files that take longest: where files are shared out in order, nobody waits in the end for one that began last.
Documents and the main job are apart: both time kernels, so that one would wait for the other."""


_YOUNG = 20_000
"""New objects after which garbage is looked for: with Python's 700, a tenth of the time of whatever rewrites graphs."""


@pytest.fixture(autouse=True, scope="module")
def _no_worker():
    """Undo after each file what loading a candidate to be executed leaves for as long as a worker lives."""
    yield
    if (loading := sys.modules.get("kernelwright.executor._loading")) is not None:
        loading._FOR_GOOD.close()
        loading._native._PREBUILT.clear()
        loading._native._host.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def _zygotes(request):
    """Let zygotes import torch once for all pools of a process, except where they are what is tested."""
    real = request.path.relative_to(Path(__file__).parent).parts[0] in REAL
    with contextlib.nullcontext() if real else split_zygotes():
        yield


@pytest.fixture(autouse=True)
def _same_random_state():
    random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    """A cache of builds for all processes of a run, in which torch compiles, and peaks are, in the user's own.

    What torch compiles first takes some twenty seconds, and that with every cache; peaks are measured for ten, three
    times where the machine is busy.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-cache"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("baselines", "peaks"):
        own = Settings.from_environment().cache / name
        own.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(own)
    return folder


def pytest_configure():
    """Keep all precompiled headers of a run, which builds with more flags than a user: each takes three seconds.

    Where there is no C++ compiler, skip whatever comes to build C++: most tests do, far below what they name."""
    _precompiled._KEPT = 64
    if not is_here("C++ compiler"):
        from kernelwright.languages.cpp import Cpp

        Cpp.build = lambda *_, **__: require("C++ compiler")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are collected, a quarter of that time, and never again in what is there then."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(_YOUNG)
        gc.enable()


def pytest_sessionfinish():
    """Let what is left go before libraries look, at the end, for what was not."""
    gc.unfreeze()


def pytest_itemcollected(item):
    """Refuse tests marked `alone` in files in which `check.py`, which reads them, does not find the mark."""
    if item.get_closest_marker("alone") and "mark.alone" not in item.path.read_text():
        raise pytest.UsageError(f"{item.path}: write pytest.mark.alone in the file of the test")


def pytest_collection_modifyitems(items):
    """Let those that take longest begin first."""
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip what needs a tool that is not here, before its fixtures are made."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)


def pytest_terminal_summary(terminalreporter):
    """Say which promises this run could not test, each with its reason and how many tests wait for it."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("promises not tested here")
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{untested(reason)} ({count} {'test' if count == 1 else 'tests'})")
