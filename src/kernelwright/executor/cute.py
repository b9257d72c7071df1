"""CuTe DSL's kernels on a machine without a GPU: the host's half is run as it was compiled, launches are executed.

CuTe DSL compiles the host's half in memory and links it with a small runtime of its own, whose calls of CUDA's runtime
come here (`host/cute.cpp`, `host/cudart.cpp`).

Covers: compiled functions, called through `cute.compile` or at once; arguments from `from_dlpack`; tensor maps.
Does not cover: the TVM FFI interface (`--enable-tvm-ffi`), what is loaded from files, graphs of CUDA.
"""

import ctypes
import functools
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ..errors import MissingToolError
from ..languages import Availability, Kernel, cute
from ..languages._package import imported
from ..languages._process import run_tool
from ..languages.torch import load_symbol
from ..records import Candidate, TensorSpec
from . import _cudart, _native
from ._cudart import nvcc
from ._errors import NotExecutedError
from ._lending import Lending
from ._loading import FOLDER, TARGET, OnlyExecuted, called_by, needs_nvcc
from .device import device
from .module import Options

_BUILD_S: Final = 300.0
_ARCHIVE: Final = "libcuda_dialect_runtime_static.a"


class Cute(OnlyExecuted, cute.Cute):
    """CuTe DSL; executed where there is no GPU."""

    def available(self) -> Availability:
        """Report the package's version, and whether nvcc is here to execute its kernels by."""
        return needs_nvcc(super().available())

    def libraries(self) -> list[Path]:
        """Return the engine and CUDA's runtime."""
        return [*super().libraries(), _cudart.built(nvcc()), _runtime(nvcc())]

    def load_in_order(
        self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...], how: Options
    ) -> Kernel:
        """Load it so that what CuTe DSL compiles is linked with a runtime that executes."""
        _native.adopt(artefact / FOLDER)
        device().options = how
        device().start(_cudart.built(nvcc()))
        _redirect(imported("cutlass"), _runtime(nvcc()), self.watched)
        return called_by(Lending().call, load_symbol(candidate, artefact), candidate, outputs)


def _redirect(package: Any, runtime: Path, watched: Callable[..., Any]) -> None:
    """Have CuTe DSL compile for the target, keep the PTX, and hand it out when it loads its kernels."""
    from cutlass.cutlass_dsl import cuda_jit_executor

    settings = package.cutlass_dsl.CuTeDSL._get_dsl().envar
    settings.arch, settings.shared_libs = f"{TARGET}a", str(runtime)
    settings.keep_ptx, settings.dump_dir = True, tempfile.mkdtemp(prefix="kernelwright-cute-")
    library = ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
    library.kw_give.argtypes, library.kw_give.restype = [ctypes.c_char_p], None
    function = cuda_jit_executor.CudaDialectJitCompiledFunction
    function.num_devices = 1
    load, call = function._load_cuda_library, function.__call__

    def loaded(made: Any) -> Any:
        if not made.__ptx__:
            raise NotExecutedError(f"not executed: {made.function_name}, of which CuTe DSL keeps no PTX")
        made.kernelwright_binary = fat_binary(made.__ptx__)
        library.kw_give(made.kernelwright_binary)
        libraries = load(made)
        device().prepare()
        return libraries

    @watched
    def called(made: Any, *arguments: Any, **named: Any) -> Any:
        return device().call(functools.partial(call, made, *arguments, **named))

    function._load_cuda_library, function.__call__ = loaded, called


def fat_binary(ptx: str) -> bytes:
    """Return a fat binary of one PTX text, as nvcc puts them into libraries.

    Example:
        >>> binary = fat_binary(".version 8.0")
        >>> _cudart.ptx_in(lambda at, size: binary[at : at + size])
        '.version 8.0'
    """
    text = ptx.encode() + b"\0"
    own = struct.calcsize("<HHIQ")
    entry = struct.pack("<HHIQ", _cudart.PTX, 0x101, own, len(text)) + text
    return struct.pack("<IHHQ", _cudart.MAGIC, 1, 16, len(entry)) + entry


def _runtime(compiler: str) -> Path:
    """Return the library of CuTe DSL's own runtime and what it calls, built where this machine has not built it yet."""
    source = _cudart.HOST / "cute.cpp"
    home = Path(imported("nvidia_cutlass_dsl").__path__[0])
    archive = next(iter(sorted(home.glob(f"*/lib/{_ARCHIVE}"))), None)
    if archive is None:
        raise MissingToolError(f"no {_ARCHIVE} in the wheel of nvidia-cutlass-dsl; expected 4.8 or later")

    def build(folder: Path, into: Path) -> None:
        words = [
            compiler, "-std=c++17", "-x", "c++", "-O1", "-shared", "-Xcompiler", "-fPIC,-fvisibility=hidden",
            "--cudart=none", str(source), f"-Xlinker=-Bsymbolic,--whole-archive,{archive},--no-whole-archive", "-o",
            str(into),
        ]  # fmt: skip
        done = run_tool(
            words, deadline_s=_BUILD_S, folder=folder, closed=True, readable=[_cudart.HOST, archive.parent]
        )
        if done.timed_out or done.returncode != 0:
            raise MissingToolError(f"nvcc did not build CuTe DSL's runtime:\n{done.output[:4000]}")

    return _native.cached(_native.key(b"cute", source.read_bytes(), archive.read_bytes()), build)
