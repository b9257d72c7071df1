"""The build cache: one folder per build, named by the hash of its inputs, put in place atomically by a rename.

A build is compiled in a scratch folder and renamed when complete, so that a process killed at any
moment leaves either nothing or a complete entry; of two concurrent builders, the second finds the first's
entry and uses it.

Covers: concurrent builders, kill -9, a corrupt or foreign record (it is built again).
Does not cover: changes to the files of a finished entry.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from ..errors import StoreError
from ..records import Build, BuildStatus, Candidate, content_key

_RECORD = "build.json"
_STALE_S = 3600.0
_LEAST_FREE_BYTES = 1 << 20
_KEPT = (BuildStatus.OK, BuildStatus.FAILED)


class UnsafePathError(ValueError):
    """A candidate names a file outside its own folder."""


def cached_build(
    cache: Path, candidate: Candidate, toolchain: str, compile_in: Callable[[Path], Build]
) -> Build:
    """Return the candidate's build, from the cache or made by `compile_in(folder)`.

    `compile_in` finds the candidate's sources written into the folder and leaves its products there; the
    folder becomes the build's artefact. Successes and failures are kept; time-outs are tried again.
    """
    entry = _entry(cache, candidate, toolchain)
    home = entry.parent
    if (known := _read(entry)) is not None:
        return known
    home.mkdir(parents=True, exist_ok=True)
    _sweep(home)
    scratch = Path(tempfile.mkdtemp(prefix=f".{os.getpid()}-", dir=home))
    try:
        return _build(candidate, toolchain, scratch, entry, compile_in)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_cached(cache: Path, candidate: Candidate, toolchain: str) -> bool:
    """Tell whether the cache holds a build of the candidate that succeeded."""
    known = _read(_entry(cache, candidate, toolchain))
    return known is not None and known.status is BuildStatus.OK


def keep_newest(home: Path, kept: int) -> None:
    """Remove the entries of a folder but the most recently used."""
    entries = list(home.glob("[!.]*"))
    if len(entries) > kept:
        for entry in sorted(entries, key=_used, reverse=True)[kept:]:
            shutil.rmtree(entry, ignore_errors=True)


def _used(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:  # another process has removed it
        return 0.0


def write_sources(candidate: Candidate, folder: Path) -> list[Path]:
    """Write the candidate's files under `folder` and return their paths, in the candidate's order.

    Raises:
        UnsafePathError: a path is absolute, leaves the folder, or is the cache's own record.
    """
    written = []
    for source in candidate.sources:
        relative = PurePosixPath(source.path)
        if relative.is_absolute() or ".." in relative.parts or not relative.name or str(relative) == _RECORD:
            raise UnsafePathError(
                f"source path {source.path!r} is not allowed; expected a relative path within the candidate"
            )
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.text)
        written.append(path)
    return written


def _entry(cache: Path, candidate: Candidate, toolchain: str) -> Path:
    return cache / "builds" / candidate.language / content_key(candidate.key, toolchain)


def _build(
    candidate: Candidate, toolchain: str, scratch: Path, entry: Path, compile_in: Callable[[Path], Build]
) -> Build:
    started = time.monotonic()
    try:
        write_sources(candidate, scratch)
        build = compile_in(scratch)
    except UnsafePathError as error:
        build = Build(status=BuildStatus.FAILED, diagnostics=str(error))
    ok = build.status is BuildStatus.OK
    build = build.model_copy(
        update={
            "artefact": str(entry) if ok else None,
            "toolchain": toolchain,
            "time_s": time.monotonic() - started,
        }
    )
    if build.status is BuildStatus.FAILED and _is_full(scratch):
        raise StoreError(
            f"no space is left to build in {scratch.parent}; free some or set KERNELWRIGHT_CACHE"
        )
    if build.status in _KEPT:
        (scratch / _RECORD).write_text(build.to_json())
        _put_in_place(scratch, entry)
    return build


def _is_full(folder: Path) -> bool:
    """Whether a compiler may have failed because the disk was full, which is not the candidate's fault."""
    return min(shutil.disk_usage(p).free for p in (folder, tempfile.gettempdir())) < _LEAST_FREE_BYTES


def _put_in_place(scratch: Path, entry: Path) -> None:
    if _read(entry) is not None:
        return
    shutil.rmtree(entry, ignore_errors=True)
    with contextlib.suppress(OSError):
        scratch.rename(entry)
    if _read(entry) is None:
        raise StoreError(
            f"the build cache cannot be written at {entry}; free space or set KERNELWRIGHT_CACHE"
        )


def _read(entry: Path) -> Build | None:
    try:
        build = Build.from_json((entry / _RECORD).read_text())
    except (OSError, ValidationError):
        return None
    return build.model_copy(update={"time_s": 0.0})


def _sweep(home: Path) -> None:
    oldest = time.time() - _STALE_S
    for folder in home.glob(".*-*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
