"""The compiled engine: built once by the C++ compiler, cached by content, called through ctypes.

The fields of `Launch`, `Finding` and `SiteCount` are those of `native/engine.h`.
"""

import ctypes
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from ..config import Settings
from ..errors import MissingToolError
from ..languages._process import run_tool

NATIVE: Final = Path(__file__).parent / "native"
_FLAGS: Final = (
    "-std=c++17", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared",
    "-pthread", "-Wno-psabi", "-w",
)  # fmt: skip
_PARTS: Final[dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]]] = {
    "warps": {"warps": (("memory.cpp", "sync.cpp", "launch.cpp", "numbers.cpp"), ("-O1",))},
    "widths": {"widths": (("widths.cpp",), ("-O2",))},
    "atomics": {"atomics": (("atomics.cpp",), ("-O2",))},
    "wide": {"wide": (("wide.cpp",), ("-O2",))},
    "async": {"async": (("async.cpp",), ("-O2",))},
    "pieces": {"pieces": (("wmma.cpp",), ("-O2",))},
    "copies": {
        "copies": (("wgmma.cpp", "mbarrier.cpp", "print.cpp", "cluster.cpp", "bulk.cpp", "tensormap.cpp",
                    "tcgen05.cpp"), ("-O2",)),
    },
    "sparse": {"sparse": (("sparse.cpp",), ("-O2",))},
    "tensor": {"tensor": (("tensor.cpp",), ("-O3", "-ffp-contract=fast"))},
}  # fmt: skip
"""The engine's libraries: the first is what every kernel needs, the others are built and loaded for kernels that call
them. Files of a unit are compiled as one, since their headers take longer than most of them. The first library, which a
new machine waits for, is built with -O1: that takes a quarter less, and launches were as fast as with -O2."""
_NEEDS: Final = {"wide": ("widths",), "pieces": ("widths",), "copies": ("async",)}
"""What a part calls of others, which are loaded before it."""
ENGINE: Final = "warps"
"""What every kernel needs."""
_FUNCTION: Final = re.compile(r"^[A-Za-z][\w:<>*& ]*?\b(\w+)\(", re.MULTILINE)
"""A function of a file or header, where its declaration or definition begins."""
_CALLED: Final = re.compile(r"\b(\w+)(?:<\w+>)?\(")
_ACCESS: Final = re.compile(r"\b(?:load|store)<uint(\d+)_t, (\d)>\(")
_COMMON_BYTES: Final = (4, 8)
"""What loads and stores of the engine itself give a lane (`memory.cpp`); others are in `widths.cpp`."""
_HEADERS: Final = ("runtime.h", "lanes.h", "reals.h")
"""What the code of every kernel includes: the first, and by way of it the others."""
_KERNEL_FLAGS: Final = ("-O2", f"-I{NATIVE}")
_OUTLINED: Final = ("-DKW_OUTLINED",)
_LONG: Final = 300
"""Lines from which on a kernel is not optimised as one: its instructions are calls of functions that are (`lanes.h`).
Any of its blocks may follow any other, which a compiler takes long to see through: one of 7,019 lines takes 2.6 s so,
18 s with -O0, and one of 1,537 lines 1.2 s where -O2 took 7.7. A product of matrices is executed as fast."""
_MORE_HEADERS: Final = ("tcgen05.h", "video.h", "wide.h")
"""What the code of some kernels includes besides those of all."""
_BUILD_S: Final = 300.0
_ENGINE_LOCK: Final = threading.Lock()
_PREBUILT: Final[list[Path]] = []
_HOST: Final = "host"


class Finding(ctypes.Structure):
    """What the sanitiser found."""

    _fields_ = [
        ("kind", ctypes.c_uint32), ("site", ctypes.c_uint32), ("other_site", ctypes.c_uint32),
        ("count", ctypes.c_uint32), ("address", ctypes.c_uint64), ("size", ctypes.c_uint32),
        ("space", ctypes.c_uint32), ("block", ctypes.c_uint32 * 3), ("thread", ctypes.c_uint32),
        ("other_block", ctypes.c_uint32), ("other_thread", ctypes.c_uint32),
    ]  # fmt: skip


class SiteCount(ctypes.Structure):
    """What one memory instruction asked for."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("requests", "lanes", "bytes", "units")]


class Launch(ctypes.Structure):
    """One launch of a kernel: what it is given and what it gives back."""

    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32), ("shared_dynamic", ctypes.c_uint32),
        ("param_bytes", ctypes.c_uint32), ("local_bytes", ctypes.c_uint32),
        ("shared_shadow", ctypes.c_void_p), ("params", ctypes.c_void_p), ("arena", ctypes.c_void_p),
        ("shadow", ctypes.c_void_p), ("cells", ctypes.c_void_p),
        ("arena_bytes", ctypes.c_uint64), ("stack_bytes", ctypes.c_uint64),
        ("global_shift", ctypes.c_uint32), ("shared_shift", ctypes.c_uint32),
        ("flags", ctypes.c_uint32), ("threads", ctypes.c_uint32),
        ("seed", ctypes.c_uint64), ("budget", ctypes.c_uint64), ("deadline_s", ctypes.c_double),
        ("counts", ctypes.c_void_p), ("sites", ctypes.c_void_p),
        ("basic_blocks", ctypes.c_uint32), ("site_count", ctypes.c_uint32),
        ("findings", ctypes.c_void_p), ("most_findings", ctypes.c_uint32), ("found", ctypes.c_uint32),
        ("steps", ctypes.c_uint64), ("all_findings", ctypes.c_uint64),
        ("status", ctypes.c_uint32), ("status_site", ctypes.c_uint32),
        ("races_lost", ctypes.c_uint32), ("blocks_done", ctypes.c_uint32),
        ("state", ctypes.c_void_p), ("steps_of", ctypes.c_void_p),
        ("traced_block", ctypes.c_uint32), ("traced_thread", ctypes.c_uint32), ("most_traced", ctypes.c_uint32),
        ("traced", ctypes.c_uint32),
        ("printed", ctypes.c_void_p), ("most_printed", ctypes.c_uint64), ("printed_bytes", ctypes.c_uint64),
        ("cluster", ctypes.c_uint32 * 3), ("fill", ctypes.c_uint32), ("touched_cells", ctypes.c_uint64),
    ]  # fmt: skip


def engine() -> ctypes.CDLL:
    """Return what of the engine every kernel needs, built if this machine has not built it yet."""
    with _ENGINE_LOCK:
        return _part(ENGINE)


@functools.lru_cache
def _part(name: str) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(part_library(name)), mode=ctypes.RTLD_GLOBAL)
    if name == ENGINE:
        loaded.kw_launch.argtypes = [ctypes.POINTER(Launch)]
        loaded.kw_launch.restype = None
    return loaded


def engine_library() -> Path:
    """Return the file of what every kernel needs, built where it is not there yet; nothing of it is loaded."""
    return part_library(ENGINE)


def engine_libraries() -> list[Path]:
    """Return the files of the whole engine, for kernels that nobody knows yet."""
    return [part_library(name) for name in _PARTS]


def part_library(name: str) -> Path:
    """Return the file of a part of the engine, built where this machine has not built it yet."""
    used = {file for files, _ in _PARTS[name].values() for file in files}
    sources = {
        path.name: path.read_bytes()
        for path in sorted(NATIVE.iterdir())
        if path.suffix == ".h" or path.name in used
    }
    flags = repr(_PARTS[name]).encode()
    made_of = (flags, *(file.encode() + text for file, text in sources.items()))
    return cached(key(b"engine", *made_of), functools.partial(_build_part, name))


@functools.lru_cache
def _functions(part: str) -> frozenset[str]:
    """Name the functions of a part that headers of translated kernels declare."""
    files = (file for files, _ in _PARTS[part].values() for file in files)
    defined, declared = (
        {name for file in chosen for name in _FUNCTION.findall((NATIVE / file).read_text())}
        for chosen in (files, ("runtime.h", *_MORE_HEADERS))
    )
    return frozenset(defined & declared)


def parts_for(source: str) -> list[str]:
    """Name the parts of the engine that a translated kernel calls beyond what every kernel needs.

    Example:
        >>> parts_for("q = mbarrier_test(w, m, at);"), parts_for("f.put(t, 1); barrier(w, m, id, n, true, 1);")
        (['async', 'copies'], [])
        >>> parts_for("load<uint32_t, 4>(w, m, a, GLOBAL, WEAK, 1, got); store<uint32_t, 1>(w, m, a, put);")
        ['widths']
    """
    called = set(_CALLED.findall(source))
    wanted = {name for name in _PARTS if name != ENGINE and called & _functions(name)}
    if any(int(bits) // 8 * int(count) not in _COMMON_BYTES for bits, count in _ACCESS.findall(source)):
        wanted.add("widths")
    wanted.update(needed for name in tuple(wanted) for needed in _NEEDS.get(name, ()))
    return [name for name in _PARTS if name in wanted]


def kernel_library(source: str) -> Path:
    """Return the file of a translated kernel, built where this machine has not built it yet; it is not loaded."""
    used = (*sorted(_HEADERS), *(h for h in _MORE_HEADERS if f'"{h}"' in source))
    headers = b"".join((NATIVE / name).read_bytes() for name in used)
    more = _OUTLINED if source.count("\n") >= _LONG else ()
    name = key(b"kernel", " ".join(more).encode(), headers, source.encode())
    return cached(name, functools.partial(_build_kernel, source, more))


def kernel_headers(*more: str) -> Path | None:
    """Return the precompiled form of what every translated kernel begins with; none where the compiler is not GCC.

    Args:
        more: Flags of the kernel beyond those of all.
    """
    if Path(compiler()).name != "g++":
        return None
    flags = (*_KERNEL_FLAGS, *more)
    made_of = (" ".join(flags).encode(), *((NATIVE / name).read_bytes() for name in _HEADERS))
    return cached(key(b"headers", *made_of), functools.partial(_build_headers, flags), suffix=".gch")


def headers_of_any() -> list[Path]:
    """Return the precompiled headers, for kernels that nobody knows yet; none where the compiler is not GCC."""
    return [made for made in (kernel_headers(), kernel_headers(*_OUTLINED)) if made]


def kernel(source: str, symbol: str) -> tuple[ctypes.CDLL, int]:
    """Return the library of a translated kernel and the address of its entry."""
    with _ENGINE_LOCK:
        for name in (ENGINE, *parts_for(source)):
            _part(name)
    loaded = ctypes.CDLL(str(kernel_library(source)))
    return loaded, ctypes.cast(getattr(loaded, symbol), ctypes.c_void_p).value or 0


def _build_part(name: str, folder: Path, into: Path) -> None:
    units = _PARTS[name]

    def built(unit: str) -> str:
        files, flags = units[unit]
        source, made = folder / f"all-{unit}.cpp", folder / f"{unit}.o"
        source.write_text("".join(f'#include "{file}"\n' for file in files))
        _compile([*flags, f"-I{NATIVE}", "-c", str(source), "-o", str(made)], folder)
        return str(made)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(built, units))
    _compile([*objects, "-o", str(into)], folder)


def _build_kernel(source: str, more: Sequence[str], folder: Path, into: Path) -> None:
    (folder / "kernel.cpp").write_text(source)
    readable = []
    if headers := kernel_headers(*more):
        readable = [headers]
        (folder / f"{_HEADERS[0]}.gch").symlink_to(headers)
    _compile([*_KERNEL_FLAGS, *more, str(folder / "kernel.cpp"), "-o", str(into)], folder, readable)


def _build_headers(flags: Sequence[str], folder: Path, into: Path) -> None:
    """Precompile what every translated kernel begins with: parsing it takes longer than most kernels."""
    _compile([*flags, "-x", "c++-header", str(NATIVE / _HEADERS[0]), "-o", str(into)], folder)


def _compile(words: list[str], folder: Path, readable: Sequence[Path] = ()) -> None:
    command = [compiler(), *_FLAGS, *words]
    done = run_tool(command, deadline_s=_BUILD_S, folder=folder, closed=True, readable=[NATIVE, *readable])
    if done.timed_out:
        raise MissingToolError(f"the C++ compiler did not end within {_BUILD_S:g} s")
    if done.returncode != 0:
        raise MissingToolError(f"the C++ compiler failed on the executor's code:\n{done.output[:4000]}")


@functools.lru_cache
def compiler() -> str:
    """Return the C++ compiler.

    Raises:
        MissingToolError: where there is none.
    """
    for name in ("g++", "clang++"):
        if path := shutil.which(name):
            return path
    raise MissingToolError("no C++ compiler (g++ or clang++); install one: `apt-get install g++`")


def adopt(prebuilt: Path) -> None:
    """Take libraries from a folder, whatever this process's own compiler and cache are, if `leave_in` filled it."""
    if (prebuilt / _HOST).is_file():
        _PREBUILT[:] = [prebuilt]
        _host.cache_clear()


def leave_in(prebuilt: Path, libraries: Sequence[Path]) -> None:
    """Put libraries into a folder for processes that are to compile nothing."""
    prebuilt.mkdir(parents=True, exist_ok=True)
    for library in libraries:
        left = prebuilt / library.name
        if left.exists():  # a library's name says what is in it
            continue
        try:
            os.link(library, left)
        except OSError:  # another file system
            shutil.copyfile(library, left)
    (prebuilt / _HOST).write_bytes(_host())


@functools.lru_cache
def _host() -> bytes:
    """Name the compiler and the processor that `-march=native` stands for."""
    if _PREBUILT:
        return (_PREBUILT[0] / _HOST).read_bytes()
    version = subprocess.run([compiler(), "--version"], capture_output=True, check=False, timeout=60).stdout
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return (
        version
        + "".join(sorted({x for x in lines if x.startswith(("model name", "flags", "Features"))})).encode()
    )


def key(*parts: bytes) -> str:
    """Name a library by what it is made from, the compiler and the processor."""
    digest = hashlib.sha256()
    for part in (_host(), " ".join(_FLAGS).encode(), *parts):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:32]


def cached(name: str, build: Callable[[Path, Path], None], suffix: str = ".so") -> Path:
    """Return a file of the build cache by its key, built in a folder of its own and renamed when it is whole.

    Who asks for one that another thread or process is building waits for it.
    """
    for prebuilt in _PREBUILT:
        if (prebuilt / f"{name}{suffix}").is_file():
            return prebuilt / f"{name}{suffix}"
    path = Settings.from_environment().cache / "executor" / f"{name}{suffix}"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.with_suffix(".lock").open("w") as lock,
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".build-") as scratch,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_file():
            return path
        made = Path(scratch) / f"made{suffix}"
        build(Path(scratch), made)
        made.replace(path)
        path.with_suffix(".lock").unlink(missing_ok=True)
    return path
