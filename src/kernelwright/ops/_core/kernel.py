"""Kernel: C++ source, the headers it includes and compile-time parameters; each of its kernels is built once.

A family's kernels share one file, but whoever calls one waits for that one alone: it is a library of its own. What
takes long to compile has a library for each kind of its calls, `Parts`, of which a call builds its own.
"""

import ctypes
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ...languages.cpp import LIBRARY, Cpp
from ...languages.vectors import headers_of
from ...records import Build, BuildStatus, Candidate, SourceFile
from .served import served_calls

Entry = Callable[..., Any]
"""A compiled symbol: called with arguments and outputs; returns nothing."""

_PACKAGE = Path(__file__).parents[2]
HEADERS = (
    *sorted((_PACKAGE / "ops" / "_templates").glob("*/")),
    _PACKAGE / "compiler" / "printers" / "cpp",
)
"""Folders in which a kernel's headers are looked for, after its own."""
_SYMBOL = re.compile(r"^KW_KERNEL\((\w+)\)", re.MULTILINE)
_FLAGS = ("-Wno-psabi", "-Wno-uninitialized", "-Wno-maybe-uninitialized", "-Wno-unused-but-set-variable")
"""Everything is inlined, so no vector crosses an ABI; GCC 12 warns of its own AVX-512 headers."""
_DEADLINE_S = 300.0
_SILENT_S = 0.4
"""Seconds after which a build says that it is one; loading from the cache is quicker."""


@dataclass(frozen=True)
class Parts:
    """The kinds of calls for which a kernel is built by itself.

    Without the macro the kernel serves all of them: so the judge takes it. With it, it need serve no other.
    """

    macro: str
    """What the source looks at, `KW_PLANES`."""
    values: tuple[int, ...]
    """What it is defined as, one for each kind."""
    of: Callable[..., int]
    """Takes an op's arguments and returns the value for such a call, by dtypes, shapes and numbers alone."""

    def flag(self, value: int) -> str:
        """Return the flag of a kind."""
        return f"-D{self.macro}={value}"


class Kernel:
    """The C++ kernels of a family.

    Each is built for this machine's processor on first use, with one line on stderr, and found in the cache after
    that. Threads may use it at once. A forked child runs it, and torch, on one thread: the threads of OpenMP are not
    forked, and waiting for them would never end.

    Args:
        file: The source with the kernels; headers are looked for in its folder first.
        defines: Macros that are set when it is built.
        flags: For the compiler, after those of every kernel: `-O2` where `benchmarks.ops.flags` finds it no slower.

    Example:
        >>> from kernelwright.ops import kmeans
        >>> kmeans.KERNEL.symbols[0]
        'kmeans_assign'
    """

    def __init__(
        self, file: Path, *, defines: Mapping[str, int] | None = None, flags: tuple[str, ...] = ()
    ) -> None:
        self.file, self.name = file, file.parent.name
        self._flags = (*_FLAGS, *flags, *(f"-D{name}={value}" for name, value in (defines or {}).items()))
        self._lock = threading.Lock()
        self._libraries: dict[tuple[str, str], Any] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self.ops: list[Any] = []
        """The ops whose kernels it holds, in the order of their definition."""
        self.problem = ""
        """Why it cannot be used here; empty if it can, or was not tried."""

    @cached_property
    def sources(self) -> tuple[SourceFile, ...]:
        """The kernel's file and every header that it includes, directly or through another."""
        main = SourceFile(path=self.file.name, text=self.file.read_text())
        return (main, *headers_of(main.text, (self.file.parent, *HEADERS)))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Names of the kernels it exports, in the order of the file."""
        return tuple(_SYMBOL.findall(self.sources[0].text))

    def candidate(self, symbol: str = "", part: str = "") -> Candidate:
        """Return one of the kernels as the judge takes it, or a part of it; the first by default."""
        symbol = symbol or self.symbols[0]
        alone = ("-DKW_SOME", f"-DKW_WITH_{symbol}=0,") if len(self.symbols) > 1 else ()
        return Candidate(
            sources=self.sources, language="cpp", entry=f"{self.file.name}:{symbol}", style="destination",
            flags=(*self._flags, *alone, *([part] if part else [])), proposer="ops", parameters={"strided": True},
        )  # fmt: skip

    def parts(self, symbol: str) -> tuple[str, ...]:
        """Return the flags of a kernel's parts; one that is empty where it has none."""
        split = next((op.parts for op in self.ops if op.name == symbol), None)
        return tuple(split.flag(value) for value in split.values) if split else ("",)

    def built(self, symbol: str) -> bool:
        """Tell whether all parts of a kernel are in the cache, for this processor and compiler."""
        return all(Cpp().built(self.candidate(symbol, part)) for part in self.parts(symbol))

    def build(self) -> Build:
        """Build all kernels, as many at once as there are processors, or find them in the cache.

        Returns:
            The first build that failed, or else one of them, with the seconds of all.
        """
        all_parts = [(symbol, part) for symbol in self.symbols for part in self.parts(symbol)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            builds = list(pool.map(self._build, *zip(*all_parts, strict=True)))
        failed = next((build for build in builds if build.status is not BuildStatus.OK), None)
        return failed or builds[0].model_copy(update={"time_s": sum(build.time_s for build in builds)})

    def function(self, symbol: str, part: str = "") -> Entry | None:
        """Return a compiled symbol, building and loading where that was not done; None if there is a `problem`."""
        with self._lock:
            if (symbol, part) not in self._libraries and not self.problem:
                self._load(symbol, part)
        library = self._libraries.get((symbol, part))
        return None if library is None else library.get_function(symbol)

    def address(self, symbol: str, part: str = "") -> int:
        """Return where a compiled symbol is, which was loaded."""
        function = getattr(ctypes.CDLL(str(self._paths[symbol, part])), f"__tvm_ffi_{symbol}")
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def _build(self, symbol: str, part: str) -> Build:
        with _said(f"kernelwright: building {symbol} for this processor (once)"):
            served_calls()
            return Cpp().build(self.candidate(symbol, part), deadline_s=_DEADLINE_S)

    def _load(self, symbol: str, part: str) -> None:
        import tvm_ffi

        build = self._build(symbol, part)
        if build.status is BuildStatus.OK and build.artefact:
            path = self._paths[symbol, part] = Path(build.artefact) / LIBRARY
            self._libraries[symbol, part] = tvm_ffi.load_module(str(path))
            _in_children_one_thread()
        else:
            lines = build.diagnostics.strip().splitlines()
            said = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
            self.problem = f"its kernel could not be built here: {build.status}, {said}"


@cache
def _in_children_one_thread() -> None:
    os.register_at_fork(after_in_child=_one_thread)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@contextmanager
def _said(line: str) -> Iterator[None]:
    """Say on stderr what takes long, once it does."""
    timer = threading.Timer(_SILENT_S, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
