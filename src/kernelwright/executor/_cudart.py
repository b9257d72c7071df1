"""The CUDA runtime of a machine without a GPU: `host/cudart.cpp`, built once, loaded before what calls it."""

import contextlib
import ctypes
import functools
import os
import re
import shutil
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ..config import Settings
from ..errors import MissingToolError
from ..languages._process import Finished, run_tool
from . import _native

HOST: Final = Path(__file__).parent / "host"
_SOURCES: Final = ("cudart.cpp", "tensormap.h")
_BUILD_S: Final = 300.0
_LOOK_S: Final = 0.05
_NAME: Final = "libkernelwright-cudart.so"
"""What libraries that call the runtime name as needed, whatever its file is called."""
MAGIC: Final = 0xBA55ED50
PTX: Final = 1
_DEFINED: Final = re.compile(r"^(?:API|DRIVER|extern \"C\" .*?)\s*\b(_*cu[A-Z]?\w+)\(", re.MULTILINE)

_FOLDER: Final = re.compile(r'(^\s*\.file\s+\d+\s+")[^"]*/(?=[^"/]+")', re.MULTILINE)
"""Where a source lay when it was compiled, which says nothing to anybody."""

LAUNCH: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32),
    ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int,
)  # fmt: skip
MEMORY: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64
)
SYMBOL: Final = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_int,
)
ATTRIBUTES: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64)
)


class Hooks(ctypes.Structure):
    """What the runtime asks of Python; the fields of `Hooks` in `host/cudart.cpp`."""

    _fields_ = [("launch", LAUNCH), ("memory", MEMORY), ("symbol", SYMBOL), ("attributes", ATTRIBUTES)]


def nvcc() -> str:
    """Return the path of nvcc.

    Raises:
        MissingToolError: where there is none.
    """
    settings = Settings.from_environment()
    home = settings.cuda_home
    names = [settings.nvcc] if settings.nvcc else ["nvcc", *([str(home / "bin" / "nvcc")] if home else [])]
    if found := next((path for name in names if (path := shutil.which(name))), None):
        return found
    raise MissingToolError(
        "no nvcc; install the CUDA toolkit, put nvcc on the path, or set KERNELWRIGHT_NVCC"
    )


def functions() -> frozenset[str]:
    """Name the functions of CUDA's runtime, and of its driver, that are here.

    Example:
        >>> "cudaMalloc" in functions(), "cudaGraphLaunch" in functions()
        (True, False)
    """
    return frozenset(_DEFINED.findall("".join((HOST / name).read_text() for name in _SOURCES)))


def built(nvcc: str) -> Path:
    """Return the runtime's library, built where this machine has not built it yet."""
    source = HOST / "cudart.cpp"

    words = [
        "-std=c++17", "-x", "c++", "-O1", "-shared", "-Xcompiler", "-fPIC,-fvisibility=hidden", "--cudart=none",
        f"-Xlinker=-soname={_NAME},-Bsymbolic",
    ]  # fmt: skip

    def build(folder: Path, into: Path) -> None:
        done = run_tool(
            [nvcc, *words, str(source), "-o", str(into)],
            deadline_s=_BUILD_S,
            folder=folder,
            closed=True,
            readable=[HOST],
        )
        if done.timed_out or done.returncode != 0:
            raise MissingToolError(f"nvcc did not build the executor's CUDA runtime:\n{done.output[:4000]}")

    made_of = (" ".join(words).encode(), *((HOST / name).read_bytes() for name in _SOURCES))
    return _native.cached(_native.key(b"cudart", *made_of), build)


@contextlib.contextmanager
def linked(nvcc: str, folder: Path) -> Iterator[str]:
    """Put the runtime into a folder for as long as something is linked there; yields the word for nvcc."""
    place = folder / _NAME
    shutil.copyfile(built(nvcc), place)
    try:
        yield _NAME
    finally:
        place.unlink(missing_ok=True)


def link(nvcc: str, made: Path, into: Path, deadline_s: float) -> Finished:
    """Link an object of nvcc's with the runtime to a library in the same folder."""
    with linked(nvcc, made.parent) as runtime:
        words = [_native.compiler(), "-shared", made.name, runtime, "-o", into.name]
        return run_tool(words, deadline_s=max(1.0, deadline_s), folder=made.parent, closed=True)


@contextlib.contextmanager
def kept(folder: Path, ahead: Callable[[str], None]) -> Iterator[list[str]]:
    """Call `ahead` with each PTX that nvcc has made, while it goes on; yields words by which nvcc keeps its files.

    nvcc writes a fat binary next to the PTX once that is whole.
    """
    folder.mkdir()
    over = threading.Event()

    def look() -> None:
        told: set[Path] = set()
        while not over.wait(_LOOK_S):
            for ptx in {
                fat.with_name(fat.name.split(".")[0] + ".ptx") for fat in folder.glob("*.fatbin*")
            } - told:
                told.add(ptx)
                if ptx.is_file():
                    ahead(_FOLDER.sub(r"\1", ptx.read_text(errors="replace")))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield ["--keep", "--keep-dir", folder.name]
    finally:
        over.set()
        looking.join()
        shutil.rmtree(folder, ignore_errors=True)


def bind(library: Path) -> ctypes.CDLL:
    """Load what was linked with the runtime, which is loaded, so that it calls that one.

    Torch built for CUDA brings NVIDIA's own, whose functions every later library would find first otherwise.
    """
    return ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_DEEPBIND)


@functools.lru_cache
def load(library: str) -> Any:
    """Load the runtime so that what is loaded later finds its functions."""
    loaded = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    loaded.kw_binary.restype = ctypes.c_void_p
    return loaded


def ptx_at(address: int) -> str:
    """Return the PTX of a fat binary in memory; of several the last, which is for the newest architecture."""
    return ptx_in(lambda offset, size: ctypes.string_at(address + offset, size))


def ptx_of(library: Path) -> list[str]:
    """Return the PTX of each fat binary in a library's file."""
    raw = library.read_bytes()
    starts = [m.start() for m in re.finditer(re.escape(struct.pack("<I", MAGIC)), raw)]
    found = []
    for start in starts:
        at = start
        if int.from_bytes(raw[at + 4 : at + 6], "little") == 1:
            found.append(ptx_in(lambda offset, size, at=at: raw[at + offset : at + offset + size]))  # type: ignore[misc]
    return found


def ptx_in(read: Callable[[int, int], bytes]) -> str:
    """Return the last PTX of a fat binary; empty where there is none.

    Args:
        read: Returns bytes by their offset and number.
    """
    magic, _, header, size = struct.unpack("<IHHQ", read(0, 16))
    if magic != MAGIC:
        return ""
    at, end, found = header, header + size, ""
    while at < end:
        kind, _, own, held = struct.unpack("<HHIQ", read(at, 16))
        if kind == PTX:
            found = read(at + own, held).split(b"\0")[0].decode(errors="replace")
            found = _FOLDER.sub(r"\1", found)
        at += own + held
    return found
