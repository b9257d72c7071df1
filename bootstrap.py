#!/usr/bin/env python3
"""Set Kernelwright up in `.venv` beside this file, then run it.

    python3 bootstrap.py optimize examples/rmsnorm_residual.py     the main job
    python3 bootstrap.py --check [--quick]                         the tests, types and lints (docs/testing.md)

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
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
LARGE = r"site-packages[/\\](transformers|openai|anthropic|pip)[/\\]"
"""Packages of which little is imported, and first by processes that keep what they compiled: a quarter of all."""


def set_up(extras: str) -> None:
    """Make the virtual environment and install the project into it, unless that is done already."""
    wanted = hashlib.sha256(
        (ROOT / "pyproject.toml").read_bytes() + (ROOT / "constraints.txt").read_bytes()
    ).hexdigest()
    stamp = VENV / f"installed-{extras}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    packages, begun = packages_with_torch(), time.monotonic()
    torch = f"with the torch in {packages}" if packages else "with a torch to download, the largest part"
    say(f"setting up {VENV}, once, {torch}; this takes some minutes")
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    if packages:
        share(packages, VENV)
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    pins = [] if packages else ["--constraint", str(ROOT / "constraints.txt")]
    follow([*pip, "--no-compile", *pins, "--editable", f"{ROOT}[{extras}]"])
    compile_ahead(VENV, ROOT / "src")
    stamp.write_text(wanted)
    say(f"set up in {time.monotonic() - begun:.0f} s")


def compile_ahead(*folders: Path) -> None:
    """Compile to byte code on all cores, as pip does on one: a worker that cannot write would do it at each start."""
    subprocess.run(
        [str(PYTHON), "-m", "compileall", "-qq", "-j", "0", "-x", LARGE, *map(str, folders)], check=False
    )


def follow(command: list[str]) -> None:
    """Run pip and tell what takes long while it goes on."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pip:
        for line in pip.stdout or ():
            step = step_of(line.strip())
            if step:
                say(f"  {step}")
    if pip.returncode:
        raise subprocess.CalledProcessError(pip.returncode, command)


def step_of(line: str) -> str:
    """Say what takes long in a line of pip's: a download of megabytes, or the installation; else nothing.

    Example:
        >>> step_of("Downloading torch-2.13.0-cp311-cp311-linux_x86_64.whl (190.5 MB)")
        'downloading torch-2.13.0 (190.5 MB)'
        >>> step_of("Installing collected packages: mpmath, sympy, torch")
        'installing 3 packages'
        >>> step_of("Downloading idna-3.10-py3-none-any.whl (70 kB)")
        ''
    """
    name, _, rest = line.removeprefix("Downloading ").rpartition(" (")
    if line.startswith("Downloading ") and rest.endswith(("MB)", "GB)")):
        return f"downloading {'-'.join(Path(name).name.split('-')[:2])} ({rest}"
    if line.startswith("Installing collected packages: "):
        return f"installing {line.count(',') + 1} packages"
    return ""


def say(words: str) -> None:
    """Tell whoever waits."""
    print(words, file=sys.stderr, flush=True)


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
        say(f"Kernelwright needs Python 3.11 or later; this is {sys.version.split()[0]}")
        return 2
    arguments = sys.argv[1:]
    checking = arguments[:1] == ["--check"]
    try:
        set_up("dev" if checking else "triton,opencl,bayes")
    except subprocess.CalledProcessError as error:
        say(f"set-up failed: {' '.join(map(str, error.cmd))} ended with {error.returncode}")
        return 4
    command = (
        [str(PYTHON), str(ROOT / "check.py"), *arguments[1:]]
        if checking
        else [str(PYTHON.with_stem("kernelwright")), *arguments]
    )
    os.execv(command[0], command)


if __name__ == "__main__":
    raise SystemExit(main())
