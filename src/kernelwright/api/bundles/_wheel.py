"""The package that is running → a wheel of it, so that the same judge runs elsewhere; and what else it needs.

Source: Python Packaging User Guide, "Binary distribution format".
"""

import base64
import hashlib
import re
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from ... import __version__

NAME = "kernelwright"
AT_HAND = frozenset({"torch", "triton"})
"""What the device's machine has by itself: builds for its driver; nothing of theirs is carried either."""
_ALWAYS = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = {"__pycache__"}


def write_wheel(folder: Path) -> Path:
    """Write a wheel of this very package, and return its path.

    The same files give the same bytes.
    """
    info, package = f"{NAME}-{__version__}.dist-info", Path(__file__).resolve().parents[2]
    files = {
        f"{NAME}/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and not _LEFT_OUT.intersection(path.parts) and path.suffix != ".pyc"
    }
    installed = distribution(NAME)
    for name in ("METADATA", "entry_points.txt"):
        files[f"{info}/{name}"] = (installed.read_text(name) or "").encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: {NAME} {__version__}\nRoot-Is-Purelib: true\nTag: py3-none-any\n".encode()
    )
    rows = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    path = folder / f"{NAME}-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            member = zipfile.ZipInfo(name, _ALWAYS)
            member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(member, data)
    return path


def needed() -> list[str]:
    """Return what the wheel needs in addition to torch and triton, as `name==version` of this machine's environment.

    Example:
        >>> any(line.startswith("pydantic==") for line in needed()), any("torch==" in line for line in needed())
        (True, False)
    """
    from packaging.requirements import Requirement

    found: dict[str, str] = {}
    waiting = [NAME]
    while waiting:
        for text in distribution(waiting.pop()).requires or ():
            asked = Requirement(text)
            name = re.sub(r"[-_.]+", "-", asked.name).lower()
            if name in found or name in AT_HAND:
                continue
            if asked.marker and not asked.marker.evaluate({"extra": ""}):
                continue
            try:
                found[name] = distribution(name).version
            except PackageNotFoundError:
                continue
            waiting.append(name)
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
