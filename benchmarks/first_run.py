"""The README's first command on a fresh clone with empty caches, set-up included. Target: six minutes.

    python -m benchmarks.first_run

Clones this checkout's HEAD into a temporary folder and runs the command there with a home of its own;
what pip downloads comes from wherever this machine's pip gets it.
"""

import os
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET_S = 360.0


def first_command() -> list[str]:
    """Read the first command out of the README, so that what is timed is what it says."""
    lines = (ROOT / "README.md").read_text().splitlines()
    return shlex.split(next(line for line in lines if line.startswith("python3 bootstrap.py ")))


def main() -> None:
    """Print seconds against the target."""
    command = first_command()
    with tempfile.TemporaryDirectory() as scratch:
        clone, home = Path(scratch) / "clone", Path(scratch) / "home"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        home.mkdir()
        caches = {
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_DATA_HOME": str(home / "data"),
            "PIP_NO_CACHE_DIR": "1",
        }
        started = time.monotonic()
        code = subprocess.run(command, cwd=clone, env={**os.environ, **caches}, check=False).returncode
        seconds = time.monotonic() - started
    print(f"{shlex.join(command)}: exit {code}, {seconds:.0f} s (target {TARGET_S:.0f} s)")


if __name__ == "__main__":
    main()
