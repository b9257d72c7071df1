#!/usr/bin/env python3
"""Set Kernelwright up in `.venv` beside this file, then run it.

    python3 bootstrap.py optimize examples/rmsnorm_residual.py     the main job
    python3 bootstrap.py --check                                   the tests, types and lints

Needs Python 3.11 or later and nothing else. A PyTorch that this Python already has is used as it is
(so a CUDA or ROCm build stays); otherwise the pinned one is installed. Set up again only when
`pyproject.toml` or `constraints.txt` has changed.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def set_up(extras: str) -> None:
    """Make the virtual environment and install the project into it, unless that is done already."""
    wanted = hashlib.sha256(
        (ROOT / "pyproject.toml").read_bytes() + (ROOT / "constraints.txt").read_bytes()
    ).hexdigest()
    stamp = VENV / f"installed-{extras}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    has_torch = importlib.util.find_spec("torch") is not None
    print(
        f"setting up {VENV} ({'with the torch at hand' if has_torch else 'with a pinned torch'})",
        file=sys.stderr,
    )
    site = ["--system-site-packages"] if has_torch else []
    subprocess.run([sys.executable, "-m", "venv", *site, str(VENV)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = [] if has_torch else ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *pins, "--editable", f"{ROOT}[{extras}]"], check=True)
    stamp.write_text(wanted)


def main() -> int:
    """Set up, then hand over to `./check` or to the command line."""
    if sys.version_info < (3, 11):
        print(f"Kernelwright needs Python 3.11 or later; this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    arguments = sys.argv[1:]
    checking = arguments[:1] == ["--check"]
    try:
        set_up("dev" if checking else "triton,opencl,bayes")
    except subprocess.CalledProcessError as error:
        print(
            f"set-up failed: {' '.join(map(str, error.cmd))} ended with {error.returncode}", file=sys.stderr
        )
        return 4
    command = (
        [str(PYTHON), str(ROOT / "check.py"), *arguments[1:]]
        if checking
        else [str(PYTHON), "-m", "kernelwright", *arguments]
    )
    os.execv(command[0], command)


if __name__ == "__main__":
    raise SystemExit(main())
