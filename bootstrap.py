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
import sysconfig
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
    packages = packages_with_torch()
    print(
        f"setting up {VENV} ({f'with the torch in {packages}' if packages else 'with a pinned torch'})",
        file=sys.stderr,
    )
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    if packages:
        share(packages, VENV)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = [] if packages else ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *pins, "--editable", f"{ROOT}[{extras}]"], check=True)
    stamp.write_text(wanted)


def packages_with_torch() -> Path | None:
    """Return the folder of packages that this Python, a virtual environment's or not, imports torch from."""
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parents[1] if spec and spec.origin else None


def share(packages: Path, venv: Path) -> None:
    """Let `venv` import what lies in `packages` and is not installed in itself."""
    own = sysconfig.get_path("purelib", "venv", vars={"base": str(venv), "platbase": str(venv)})
    (Path(own) / "torch_at_hand.pth").write_text(f"{packages}\n")


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
