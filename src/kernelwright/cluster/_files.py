"""Folders sent to nodes: packed once, named by their content, unpacked once for each machine."""

import hashlib
import io
import shutil
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

from ..errors import InputError

_MOST_BYTES = 256 << 20
_LEFT_OUT = {".git", ".venv", "__pycache__"}


def pack(folder: Path) -> bytes:
    """Pack a folder's files; the same files give the same bytes.

    Raises:
        InputError: it is too large to be sent.
    """
    files = sorted(p for p in folder.rglob("*") if p.is_file() and _LEFT_OUT.isdisjoint(p.parts))
    size = sum(p.stat().st_size for p in files)
    if size > _MOST_BYTES:
        raise InputError(
            f"{str(folder)!r} has {size >> 20} MiB, and at most {_MOST_BYTES >> 20} are sent to the nodes of a "
            "cluster; pass a folder with what is needed alone"
        )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            name = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def name_of(packed: bytes) -> str:
    """Name a packed folder by its content."""
    return hashlib.sha256(packed).hexdigest()


def unpacked(packed: bytes, cache: Path) -> Path:
    """Return the folder, unpacked in the cache unless it is there."""
    home = cache / name_of(packed)
    if home.is_dir():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=cache, prefix=".unpacking-"))
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(scratch)
        with suppress(OSError):  # another evaluator was first
            scratch.rename(home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return home
