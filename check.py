#!/usr/bin/env python3
"""Run every check: lints, types, tests. CI calls this too.

`python check.py` runs all; `python check.py tests -k softmax` runs the tests alone, with pytest's arguments. Tests run
side by side, save those marked `alone`: they run after the others, one by one.

`python check.py bare` runs the sandbox tests as on a machine without bubblewrap, clang and perf.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CORES = str(min(os.cpu_count() or 1, 4))
ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "0"}
"""Workers that share the tests must find them in the same order."""
SLOWEST = ["--durations", "15", "--durations-min", "2"]
"""Tests take minutes together: those that take long are named."""
NOTHING_CHOSEN = 5
"""What pytest ends with where its arguments choose no test."""
STEPS = {
    "lint": [
        [sys.executable, "-m", "ruff", "check", "."],
        [sys.executable, "-m", "ruff", "format", "--check", "."],
    ],
    "types": [[sys.executable, "-m", "mypy"]],
    "tests": [
        [sys.executable, "-m", "pytest", "-n", CORES, "--dist", "loadfile", *SLOWEST, "-m", "not alone"],
        [sys.executable, "-m", "pytest", *SLOWEST, "-m", "alone"],
    ],
}

OPTIONAL = ("bwrap", "clang", "perf")
"""Tools that `bare` takes off the PATH, with their numbered and suffixed names (`clang++`, `clang-19`)."""


def main() -> int:
    """Run the steps that were asked for, all of them even where one fails."""
    wanted, extra = sys.argv[1:2], sys.argv[2:]
    if wanted == ["bare"]:
        return bare(extra)
    if wanted and wanted[0] not in STEPS:
        print(f"unknown step {wanted[0]!r}; expected one of {', '.join([*STEPS, 'bare'])}", file=sys.stderr)
        return 2
    failed = []
    for step in wanted or STEPS:
        for command in STEPS[step]:
            started = time.monotonic()
            code = subprocess.run([*command, *extra], check=False, env=ENVIRONMENT).returncode
            code = 0 if code == NOTHING_CHOSEN and extra else code
            outcome = "ok" if code == 0 else f"failed ({code})"
            seconds = time.monotonic() - started
            print(f"{step}: {' '.join(command[2:])}: {outcome} in {seconds:.0f} s", flush=True)
            if code:
                failed.append(step)
    return 1 if failed else 0


def bare(extra: list[str]) -> int:
    """Run the sandbox tests with the optional tools taken off the PATH."""
    with tempfile.TemporaryDirectory() as folder:
        link_tools(os.environ.get("PATH", os.defpath), Path(folder))
        command = [sys.executable, "-m", "pytest", "-n", CORES, "--dist", "loadfile", "tests/sandbox", *extra]
        code = subprocess.run(command, check=False, env={**ENVIRONMENT, "PATH": folder}).returncode
    print(f"bare: without {', '.join(OPTIONAL)}: {'ok' if code == 0 else f'failed ({code})'}", flush=True)
    return 1 if code else 0


def link_tools(path: str, folder: Path) -> None:
    """Link into `folder` what `path` finds, the first of each name, but for the optional tools."""
    for place in path.split(os.pathsep):
        for tool in Path(place).glob("*") if place else ():
            link = folder / tool.name
            if not tool.name.startswith(OPTIONAL) and not link.is_symlink():
                link.symlink_to(tool)


if __name__ == "__main__":
    raise SystemExit(main())
