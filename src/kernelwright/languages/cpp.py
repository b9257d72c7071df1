"""C++17 or C++20 with OpenMP and vector intrinsics, through the TVM FFI ABI; style `destination`.

A candidate is one or more C++ files; every `.cpp`, `.cc` and `.cxx` is compiled, headers are found next to
them. The entry `path:symbol` names a kernel that `KW_KERNEL` (or TVM FFI's own
`TVM_FFI_DLL_EXPORT_TYPED_FUNC`) exports. It is called with the arguments, then the state, then the outputs,
which are already allocated and contiguous; scalars arrive as int64, float64 or bool and a tuple as its
elements in order.

    // axpy.cpp, entry "axpy.cpp:axpy", called as axpy(x, y, a)
    #include "kernelwright.h"

    KW_KERNEL(axpy) {
      auto x = args.tensor<const float>(0);
      auto y = args.tensor<const float>(1);
      const float a = static_cast<float>(args.real(2));
      auto out = args.tensor<float>(3);
      if (!x.same_shape(y)) KW_UNSUPPORTED("x and y must have the same shape");
      const float *px = x.data(), *py = y.data();
      float* po = out.data();
      const int64_t n = x.numel();
      #pragma omp parallel for simd
      for (int64_t i = 0; i < n; ++i) po[i] = a * px[i] + py[i];
    }

`include/kernelwright.h` documents the interface. Sources are hashed unchanged, so a template adds
`header()` to its sources; a user's file without the header gets the installed one. Several files are
compiled at the same time, and each only once for its text and the headers: a change of one costs that one.

The flags are `-O3 -march=native -fopenmp` and those that only drop errno and traps; nothing that changes
values. A candidate adds more in `flags` (`-O2`, `-ffast-math`, `-mprefer-vector-width=512`,
`-std=c++20`, `-DTILE=64`, `-lm`; in a flag, `@torch` stands for torch's folder).

Style `function` wraps the kernels in Python: the entry is `run.py:run`, and that file finds the built
library as the global `kernels`, whose attributes are the exported kernels: `kernels.axpy(x, y, a, out)`.

OpenMP: torch's wheel carries its own libgomp. A kernel of g++ is linked against that copy, so both use one
thread pool and `torch.set_num_threads` applies to both. clang's kernels need libomp, a second pool.
"""

import functools
import re
import shutil
import time
from pathlib import Path
from typing import Final

from ..config import Settings
from ..errors import InputError, MissingToolError
from ..records import Build, BuildStatus, Candidate, SourceFile, TensorSpec, content_key
from ._apart import Apart, are_apart, link
from ._cache import cached_build, is_cached
from ._destination import Destination, load_entry, load_library
from ._entry import split_entry
from ._ffi import ffi_includes
from ._object import object_evidence
from ._precompiled import PRECOMPILED, precompiled, shared_header
from ._process import run_tool
from ._protocol import Availability, Kernel
from .torch import load_symbol, python_problem

INCLUDE: Final = Path(__file__).parent / "include"
"""Folder of `kernelwright.h`."""
LIBRARY: Final = "kernel.so"
"""Name of the built library within the artefact."""

_COMPILERS = ("g++", "clang++")
_SUFFIXES = (".cpp", ".cc", ".cxx")
BASE_FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared",
    "-fvisibility=hidden", "-Wall", "-Wno-unknown-pragmas",
)  # fmt: skip
"""Flags for every kernel; OpenMP is added if the compiler supports it."""
_ALLOWED = re.compile(r"-(O|f|m|D|U|W|std=|I|l|L)")
_FORBIDDEN = re.compile(r"-f(plugin|use-ld)|-W[lap],|-mllvm")
_REMEDY = "install a C++ compiler: `apt-get install g++`, `dnf install gcc-c++` or `conda install gxx`"


class Cpp:
    """C++ kernels on the CPU."""

    name = "cpp"
    headers: tuple[Path, ...] = (INCLUDE,)
    """Folders of headers of our own."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    def available(self) -> Availability:
        """Report which compiler is used."""
        compiler = self.compiler()
        if compiler is None:
            asked = self._settings.cxx
            what = f"no C++ compiler {asked!r}" if asked else f"no C++ compiler ({' or '.join(_COMPILERS)})"
            return Availability(False, what, _REMEDY)
        if not _openmp(compiler):
            return Availability(True, f"{_version(compiler)}, no OpenMP: one thread", "install libomp or g++")
        return Availability(True, _version(compiler))

    def toolchain(self) -> str:
        """Name compiler, flags and the host CPU that `-march=native` means."""
        compiler = self.compiler()
        if compiler is None:
            return "no C++ compiler"
        return f"{_version(compiler)} {' '.join(self._flags(compiler))} host={_host()}"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Compile all C++ files into one library, keep the compiler's output, analyse the object."""
        compiler = self.compiler()
        if compiler is None:
            return self.available().missing()
        return cached_build(
            self._settings.cache,
            candidate,
            self.toolchain(),
            lambda folder: self.compile(compiler, candidate, folder, deadline_s),
        )

    def built(self, candidate: Candidate) -> bool:
        """Tell whether the candidate's build is in the cache and loads."""
        return is_cached(self._settings.cache, candidate, self.toolchain())

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load the library and return a `Destination` bound to the outputs."""
        library = artefact / LIBRARY
        if not library.is_file():
            raise MissingToolError(f"no {LIBRARY!r} in {str(artefact)!r}; build the candidate first")
        if candidate.style == "function":
            return load_symbol(candidate, artefact, given={"kernels": load_library(library)})
        entry = load_entry(library, split_entry(candidate.entry)[1])
        return Destination(entry, outputs, strided=candidate.parameters.get("strided") is True)

    def timeable(self, device: str) -> bool:
        """Whether times are meaningful: on the CPU."""
        return device == "cpu"

    def compiler(self) -> str | None:
        """Return the path of the compiler; None where there is none."""
        names = (self._settings.cxx,) if self._settings.cxx else _COMPILERS
        return next((path for name in names if (path := shutil.which(name))), None)

    def _flags(self, compiler: str) -> tuple[str, ...]:
        return (*BASE_FLAGS, "-fopenmp") if _openmp(compiler) else BASE_FLAGS

    def compile(self, compiler: str, candidate: Candidate, folder: Path, deadline_s: float) -> Build:
        """Compile in a folder that holds the sources."""
        problem = _problem(candidate)
        if problem is not None:
            return Build(status=BuildStatus.FAILED, diagnostics=problem)
        sources = [s.path for s in candidate.sources if s.path.endswith(_SUFFIXES)]
        flags = _placed(candidate.flags)
        libraries = [
            f for f in flags if f.startswith(("-l", "-L"))
        ]  # the linker wants them after the sources
        words = [
            compiler, *self._flags(compiler), *(f for f in flags if f not in libraries),
            "-I.", *(f"-I{folder}" for folder in self.headers), *ffi_includes(),
        ]  # fmt: skip
        linked = [*libraries, *_link(compiler)]
        headers = () if _is_clang(compiler) else shared_header(candidate, _SUFFIXES)
        toolchain, cache, begun = self.toolchain(), self._settings.cache, time.monotonic()
        with precompiled(headers, words, toolchain, cache, folder, deadline_s=deadline_s) as readable:
            if are_apart(candidate, sources):
                form = (headers[0].path, readable[0] / PRECOMPILED) if readable else None
                home = cache / "builds" / "objects"
                how = Apart(tuple(words), toolchain, home, _given(candidate), form, begun + deadline_s)
                done = link([s for s in candidate.sources if s.path in sources], how, folder, LIBRARY, linked)
            else:
                command = [*words, *sources, "-o", LIBRARY, *linked]
                done = run_tool(command, deadline_s=deadline_s, folder=folder, closed=True, readable=readable)
        if done.timed_out:
            return Build(
                status=BuildStatus.TIMEOUT, diagnostics=f"no end after {deadline_s:g} s\n{done.output}"
            )
        if done.returncode != 0:
            return Build(status=BuildStatus.FAILED, diagnostics=done.output)
        if missing := missing_export(candidate, folder / LIBRARY):
            return Build(status=BuildStatus.FAILED, diagnostics=f"{missing}\n{done.output}")
        evidence = object_evidence(folder / LIBRARY)
        spills = evidence.get("spills", 0)
        findings = (f"{spills} vector registers are spilled to the stack",) if spills else ()
        return Build(status=BuildStatus.OK, diagnostics=done.output, evidence=evidence, findings=findings)


def header() -> SourceFile:
    """Return `kernelwright.h` as a source file, for candidates that include it.

    Example:
        >>> header().path
        'kernelwright.h'
    """
    return SourceFile(path="kernelwright.h", text=(INCLUDE / "kernelwright.h").read_text())


def missing_export(candidate: Candidate, library: Path) -> str | None:
    """Return an error if the library does not export the entry of a destination kernel; None if it does.

    The name is looked for in the file: the judge's process loads no candidate.
    """
    symbol = split_entry(candidate.entry)[1]
    if candidate.style != "destination" or f"\0__tvm_ffi_{symbol}\0".encode() in library.read_bytes():
        return None
    return f"the sources export no kernel {symbol!r}; define it as KW_KERNEL({symbol}) {{ ... }}"


def _problem(candidate: Candidate) -> str | None:
    if candidate.style == "module":
        return "a C++ kernel is called in style 'destination' or 'function', not 'module'"
    if candidate.style == "function" and (problem := python_problem(candidate)):
        return problem
    if not any(s.path.endswith(_SUFFIXES) for s in candidate.sources):
        return f"no C++ file among {[s.path for s in candidate.sources]}; expected {', '.join(_SUFFIXES)}"
    for flag in candidate.flags:
        if not _ALLOWED.match(flag) or _FORBIDDEN.match(flag):
            return f"flag {flag!r} is not allowed; expected -O, -f, -m, -D, -U, -W, -std=, -I, -L or -l"
    try:
        split_entry(candidate.entry)
    except InputError as error:
        return str(error)
    return None


def _given(candidate: Candidate) -> tuple[SourceFile, ...]:
    """Return what its C++ files may include."""
    return tuple(s for s in candidate.sources if not s.path.endswith((*_SUFFIXES, ".py")))


def _placed(flags: tuple[str, ...]) -> list[str]:
    """Replace `@torch` in flags by torch's folder."""
    if not any("@torch" in flag for flag in flags):
        return list(flags)
    import torch

    return [flag.replace("@torch", str(Path(torch.__file__).parent)) for flag in flags]


@functools.lru_cache
def _version(compiler: str) -> str:
    line = run_tool([compiler, "--version"], deadline_s=20).output.splitlines()
    return line[0].strip() if line else compiler


@functools.lru_cache
def _is_clang(compiler: str) -> bool:
    return "clang" in _version(compiler)


@functools.lru_cache
def _openmp(compiler: str) -> bool:
    name = "libomp.so" if _is_clang(compiler) else "libgomp.so"
    return "/" in run_tool([compiler, f"-print-file-name={name}"], deadline_s=20).output


@functools.lru_cache
def _link(compiler: str) -> tuple[str, ...]:
    """Link against the libgomp in torch's wheel instead of the system's."""
    if _is_clang(compiler):
        return ()
    import torch

    home = Path(torch.__file__).parent
    copies = sorted([*home.glob("lib/libgomp*.so*"), *home.parent.glob("torch.libs/libgomp*.so*")])
    return ("-Wl,--as-needed", str(copies[0])) if copies else ()


@functools.lru_cache
def _host() -> str:
    """Name what `-march=native` means: a hash of the processor's model and features."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        import platform

        return content_key(platform.machine(), platform.processor())[:8]
    lines = {line for line in text.splitlines() if line.startswith(("model name", "flags", "Features"))}
    return content_key(*sorted(lines))[:8]
