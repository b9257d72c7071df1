"""Launches of the PTX executor, kept so that a GPU can do the same again: code, arguments, and what came out.

    with recording() as launches, label("cuda/scan"):
        kernel(grid, block, arguments)
    write(path, launches)

Covers: launches from Python (`Module[...](...)`, `run_triton`), tensor maps among them, with results or findings.
Does not cover: launches of CUDA programs' host code; pointers that lie in memory.
"""

import contextlib
import functools
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.executor._layout import GLOBAL_BASE
from kernelwright.executor.module import Kernel

_LINES = re.compile(r"^\s*\.(?:loc|file)\b.*$", re.MULTILINE)
"""What says where code comes from, and refers to sections that kept PTX may lack."""
HANGING = {"deadlock", "barrier-divergence"}
"""Findings of launches that may never end on a device."""
MOST_BYTES = 1 << 20
"""Launches that touch more are left out."""


@dataclass(frozen=True)
class Region:
    """An allocation of a launch."""

    name: str
    address: int
    """Where parameters say it lies."""
    size: int
    initialised: bool
    dtype: str
    before: bytes = b""
    after: bytes = b""


@dataclass
class Recorded:
    """One launch, and what the executor made of it."""

    label: str
    kernel: str
    ptx: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared_bytes: int
    parameters: bytes
    places: tuple[tuple[int, int], ...]
    """Offset and size of each parameter."""
    regions: tuple[Region, ...]
    status: str
    findings: tuple[str, ...]
    note: dict[str, Any] = field(default_factory=dict)
    """What else is known, for example the instructions of a kernel that tries many."""
    image: bytes = b""
    """The code that ptxas made; empty where it made none."""

    def key(self) -> str:
        """Name what is launched, whatever comes out."""
        digest = hashlib.sha256(repr((self.ptx, self.kernel, self.grid, self.block, self.cluster)).encode())
        digest.update(self.parameters + b"".join(r.before for r in self.regions))
        return digest.hexdigest()


_LABEL: list[tuple[str, dict[str, Any]]] = [("", {})]


@contextlib.contextmanager
def label(name: str, **note: Any) -> Iterator[None]:
    """Name the launches of the block."""
    _LABEL.append((name, note))
    try:
        yield
    finally:
        _LABEL.pop()


def _dtype(value: Any) -> str:
    value = getattr(value, "array", value)
    return str(getattr(value, "dtype", "uint8")).removeprefix("torch.")


@contextlib.contextmanager
def recording() -> Iterator[list[Recorded]]:
    """Keep every launch of the block; one that was seen before is kept once, with the kinds of all findings."""
    found: dict[str, Recorded] = {}
    call, execute = Kernel.__call__, Kernel._execute
    dtypes: list[str] = []
    launches: list[Recorded] = []

    def called(self: Kernel, grid: Any, block: Any, arguments: Sequence[Any], **more: Any) -> Any:
        dtypes[:] = map(_dtype, arguments)
        return call(self, grid, block, arguments, **more)

    def executed(self: Kernel, shape: Any, memory: Any, shared_bytes: int, options: Any) -> Any:
        before = memory.data.copy()
        run = execute(self, shape, memory, shared_bytes, options)
        if memory.size <= MOST_BYTES:
            made = _recorded(self, shape, memory, shared_bytes, before, run, dtypes)
            key = made.key()
            if key not in found:
                launches.append(made)
            known = found.setdefault(key, made)
            known.findings = tuple(sorted({*known.findings, *made.findings}))
            known.status = known.status if made.status == "ok" else made.status
            if [r.after for r in known.regions] != [r.after for r in made.regions]:
                known.note["depends on order"] = True
        return run

    Kernel.__call__, Kernel._execute = called, executed  # type: ignore[method-assign]
    try:
        yield launches
    finally:
        Kernel.__call__, Kernel._execute = call, execute  # type: ignore[method-assign]


def _recorded(kernel: Kernel, shape: Any, memory: Any, shared_bytes: int, before: Any, run: Any,
              dtypes: Sequence[str]) -> Recorded:  # fmt: skip
    def region(r: Any) -> Region:
        place = slice(r.offset, r.offset + r.size)
        number = r.name.split()[1] if r.name.startswith("argument ") else ""
        dtype = dtypes[int(number)] if number and int(number) < len(dtypes) else "uint8"
        return Region(r.name, GLOBAL_BASE + r.offset, r.size, r.initialised, dtype, before[place].tobytes(),
                      memory.data[place].tobytes())  # fmt: skip

    name, note = _LABEL[-1]
    return Recorded(
        name, kernel.name, kernel._layout._module.text, *shape, shared_bytes, memory.parameters,
        kernel.parameter_places,
        tuple(map(region, memory.regions)), run.status, tuple(sorted({f.kind for f in run.findings})), dict(note),
    )  # fmt: skip


def assembled(ptx: str) -> bytes:
    """Return what ptxas makes of PTX for an H100; nothing where it refuses, or is not there."""
    tool = shutil.which("ptxas")
    if tool is None:
        return b""
    target = "sm_90a" if ".target sm_90a" in ptx else "sm_90"
    with tempfile.TemporaryDirectory(prefix="kernelwright-ptxas-") as name:
        source, made = Path(name) / "kernel.ptx", Path(name) / "kernel.cubin"
        source.write_text(_LINES.sub("", ptx))
        done = subprocess.run([tool, f"-arch={target}", source.name, "-o", made.name], cwd=name, capture_output=True,
                              text=True, check=False, timeout=300)  # fmt: skip
        if done.returncode:
            print(f"ptxas: {done.stdout[:300]}{done.stderr[:300]}")
            return b""
        return made.read_bytes()


def write(path: Path, launches: Sequence[Recorded], *, workers: int = 2) -> None:
    """Write launches into one file, code and contents once each; assembles what is not assembled yet."""
    texts = sorted({r.ptx for r in launches})
    with ThreadPoolExecutor(workers) as pool:
        images = dict(zip(texts, pool.map(assembled, texts), strict=True))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        kept: set[str] = set()

        def keep(content: bytes) -> str:
            name = hashlib.sha256(content).hexdigest()[:24]
            if content and name not in kept:
                kept.add(name)
                file.writestr(name, content)
            return name if content else ""

        rows = []
        for r in launches:
            row = asdict(r) | {"ptx": keep(r.ptx.encode()), "image": keep(images[r.ptx])}
            row["parameters"] = r.parameters.hex()
            row["regions"] = [
                asdict(x) | {"before": keep(x.before), "after": keep(x.after)} for x in r.regions
            ]
            rows.append(row)
        file.writestr("launches.json", json.dumps(rows))


@functools.cache
def _opened(path: Path) -> tuple[zipfile.ZipFile, list[dict[str, Any]]]:
    file = zipfile.ZipFile(path)
    return file, json.loads(file.read("launches.json"))


@functools.lru_cache(64)
def _content(path: Path, name: str) -> bytes:
    return _opened(path)[0].read(name) if name else b""


def labels(
    folder: Path, only: Sequence[str] | None = None, *, faulty: bool = False
) -> list[tuple[Path, int, str]]:
    """Return file, place and label of the launches of a folder's files: those in which nothing was found, or the rest.

    What ptxas did not take is left out, and what would wait forever.
    """

    def wanted(row: dict[str, Any]) -> bool:
        found = {*row["findings"]}
        return bool(row["image"]) and row["status"] == "ok" and bool(found) == faulty and not found & HANGING

    return [
        (path, n, row["label"])
        for path in sorted(folder.glob("executor-*.zip"))
        if not only or path.stem.removeprefix("executor-") in only
        for n, row in enumerate(_opened(path)[1])
        if wanted(row)
    ]


def read(path: Path, number: int) -> Recorded:
    """Read one launch of those that `write` wrote."""
    row = dict(_opened(path)[1][number])
    regions = tuple(
        Region(**{**x, "before": _content(path, x["before"]), "after": _content(path, x["after"])})
        for x in row["regions"]
    )
    row |= {name: tuple(row[name]) for name in ("grid", "block", "cluster", "findings")}
    row["places"] = tuple((at, size) for at, size in row["places"])
    row |= {"ptx": _content(path, row["ptx"]).decode(), "image": _content(path, row["image"])}
    return Recorded(**row | {"parameters": bytes.fromhex(row["parameters"]), "regions": regions})


def values(content: bytes, dtype: str) -> Any:
    """Return an array of a region's bytes; floats of 16 and of 8 bits as float64."""
    width = {"bfloat16": 2}.get(dtype)
    if width is None and dtype.startswith("float8"):
        return np.frombuffer(content, np.uint8)
    if dtype == "bfloat16":
        return (np.frombuffer(content, np.uint16).astype(np.uint32) << 16).view(np.float32)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(content[: len(content) // size * size], dtype)
