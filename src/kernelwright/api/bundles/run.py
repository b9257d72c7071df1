"""Run this bundle on the device: verify, time, write `records/`. Needs torch and the standard library, no network.

python3 run.py [--device cuda:1]
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OWN = "kernelwright"


def main() -> int:
    """Check the folder, set up an environment beside it, and hand over to the judge in it."""
    if sys.version_info < (3, 11):
        return fail(f"Python 3.11 or later is needed; this is {sys.version.split()[0]}")
    torch = importlib.util.find_spec("torch")
    if torch is None or not torch.origin:
        return fail(f"{sys.executable} has no torch; run this with the Python that has it")
    if not (HERE / "manifest.json").is_file():
        return fail(f"{HERE} holds no manifest.json; copy the whole bundle here")
    manifest = json.loads((HERE / "manifest.json").read_text())
    for name, digest in manifest.items():
        path = HERE / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            return fail(f"{name} is missing or was changed; copy the bundle here again")
    python, site = set_up(HERE / ".venv", at_hand(Path(torch.origin).parents[1]))
    missing = [line for line in listed() if not fits(line, site)]
    if missing:
        return fail(
            f"this machine lacks {', '.join(missing)}; put their wheels into {HERE / 'wheels'} and run this again "
            "(`kernelwright bundle --wheels` does it), or install them into the Python that has torch"
        )
    given = {"KERNELWRIGHT_CACHE": str(HERE / "cache"), "KERNELWRIGHT_STORE": str(HERE / "store")}
    start = (
        "import sys; from kernelwright.api.bundles._execute import program; sys.exit(program(sys.argv[1:]))"
    )
    command = [str(python), "-c", start, str(HERE), *sys.argv[1:]]
    asked = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    os.execve(python, command, {**given, **asked, "PYTHONNOUSERSITE": "1"})


def at_hand(torch: Path) -> list[str]:
    """Return the folders in which this Python finds packages, torch's first; none of sources, which may be ours."""
    others = [Path(folder).resolve() for folder in sys.path if folder]
    return [str(f) for f in dict.fromkeys([torch, *others]) if f == torch or any(f.glob("*.dist-info"))]


def set_up(folder: Path, others: list[str]) -> tuple[Path, list[str]]:
    """Make a virtual environment that has our wheel, of the others what is missing, and what this Python has."""
    venv.EnvBuilder(with_pip=False, clear=True, symlinks=True).create(folder)
    own = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(folder), "platbase": str(folder)}))
    (own / "at_hand.pth").write_text("".join(f"{folder}\n" for folder in others))
    for wheel in sorted((HERE / "wheels").glob("*.whl")):
        name = wheel.name.split("-")[0]
        if name == OWN or not has(name, others):
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(own)
    return folder / "bin" / "python", [str(own), *others]


def listed() -> list[str]:
    """Return what is needed, as `name==version`."""
    return [OWN, *(HERE / "wheels.txt").read_text().split()]


def fits(line: str, site: list[str]) -> bool:
    """Tell whether a needed package is there, in any version: torch's machine knows best what works with it."""
    return has(line.partition("==")[0], site)


def has(name: str, site: list[str]) -> bool:
    """Tell whether a package is installed in one of the folders."""
    wanted = re.sub(r"[-_.]+", "-", name).lower()
    found = importlib.metadata.distributions(path=site)
    return any(re.sub(r"[-_.]+", "-", str(d.metadata["Name"])).lower() == wanted for d in found)


def fail(message: str) -> int:
    """Say in one sentence what is wrong."""
    print(f"run.py: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
