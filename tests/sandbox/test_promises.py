"""What is promised is kept on each set of layers: taken away one by one, so that one machine shows them all."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.tools import AS_NOBODY, is_here

from kernelwright.sandbox import PROMISES, promises

from .reduced import ATTEMPTS

REDUCED = Path(__file__).with_name("reduced.py")
WITHOUT = {
    "nothing": (),
    "seccomp": ("seccomp",),
    "Landlock": ("landlock",),
    "Landlock's last step": ("landlock's last step",),
    "new Landlock": ("new Landlock",),
    "namespaces": ("namespaces",),
    "what containers forbid": ("namespaces", "mounts", "capabilities"),
    "all": ("seccomp", "landlock", "namespaces"),
}
"""Sets of layers by what they lack: a kernel without it, an old one, user namespaces forbidden, inside a container."""

ALWAYS = {"nothing", "Landlock", "what containers forbid", "all"}
"""Those that each run tries."""

FILES = {
    "files of the judge cannot be read",
    "only the private folder can be written",
    "a baseline's compile cache is not seen by candidates",
}
CALLS = {"system calls that reach out are refused", "no network"}
PROCESSES = {"nothing is left alive", "workers do not reach each other"}
LOST = {
    "nothing": set(),
    "seccomp": CALLS,
    "Landlock": FILES | CALLS,
    "Landlock's last step": FILES,
    "new Landlock": {"only the private folder can be written"},
    "namespaces": PROCESSES,
    "what containers forbid": PROCESSES,
    "all": FILES | CALLS | PROCESSES,
}
"""What is no longer promised, where Landlock closes files."""
DEPENDS = {"answers are read from a stopped process"}
"""What none of these layers gives, and some systems do not."""


def attacked(without: str, sandbox: str = "landlock", *, nobody: bool = False) -> dict[str, Any]:
    """Return what a judge on a machine without these layers promised, and what candidates broke there."""
    asked = json.dumps({"without": WITHOUT[without], "sandbox": sandbox})
    command = [*(AS_NOBODY if nobody else ()), sys.executable, str(REDUCED), asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any], lost: set[str]) -> None:
    """Assert that what is lost is not promised and was broken, and that the rest is promised and was kept."""
    assert set(PROMISES) - set(found["promises"]) - DEPENDS == lost
    assert not set(found["broken"]) & set(found["promises"]), "promised, and broken by a candidate"
    assert set(found["broken"]) == lost & set(ATTEMPTS), "kept, and not promised"


def missing_here() -> set[str]:
    """Name what this machine does not give to begin with."""
    return (set() if is_here("PID namespaces") else PROCESSES) | (
        set() if is_here("system call filter") else CALLS
    )


CHOSEN = {
    "Landlock": ("none", "none"),
    "what containers forbid": ("auto", "landlock"),
    "all": ("auto", "none"),
}
"""Which kind of isolation is asked for and which it comes to, where both are not Landlock."""


@pytest.mark.needs("Landlock")
@pytest.mark.parametrize(
    "without", [pytest.param(w, marks=() if w in ALWAYS else pytest.mark.long) for w in WITHOUT]
)
def test_a_promise_is_listed_and_kept_or_it_is_neither(without: str) -> None:
    asked, isolation = CHOSEN.get(without, ("landlock", "landlock"))
    found = attacked(without, asked)
    assert found["isolation"] == isolation
    check(found, LOST[without] | missing_here())


@pytest.mark.needs("Landlock", "another user")
@pytest.mark.parametrize("without", ["nothing", pytest.param("new Landlock", marks=pytest.mark.long), "all"])
def test_so_it_is_for_a_user_who_is_not_root(without: str) -> None:
    """Nobody but root makes PID namespaces without bubblewrap."""
    asked, _ = CHOSEN.get(without, ("landlock", "landlock"))
    check(attacked(without, asked, nobody=True), LOST[without] | PROCESSES | missing_here())


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("without", ["nothing", "seccomp", "Landlock"])
def test_so_it_is_in_bubblewrap(without: str) -> None:
    """It closes files and processes by itself."""
    lost = CALLS if without == "seccomp" else set()
    check(attacked(without, "bubblewrap"), lost)


@pytest.mark.needs("bwrap", "another user")
def test_so_it_is_in_bubblewrap_for_a_user_who_is_not_root() -> None:
    check(attacked("nothing", "bubblewrap", nobody=True), set())


def test_every_promise_needs_a_layer() -> None:
    assert promises(()) == ()
    assert set(ATTEMPTS) < set(PROMISES)
