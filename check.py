#!/usr/bin/env python3
"""Run every check: lints, types, tests. CI calls this too.

`python check.py` runs all; `python check.py tests -k softmax` runs the tests alone, with pytest's arguments. Tests run
side by side, save those marked `alone`: they run after the others, one by one.
"""

import os
import subprocess
import sys
import time

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


def main() -> int:
    """Run the steps that were asked for, all of them even where one fails."""
    wanted, extra = sys.argv[1:2], sys.argv[2:]
    if wanted and wanted[0] not in STEPS:
        print(f"unknown step {wanted[0]!r}; expected one of {', '.join(STEPS)}", file=sys.stderr)
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


if __name__ == "__main__":
    raise SystemExit(main())
