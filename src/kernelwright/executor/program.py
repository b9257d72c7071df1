"""A CUDA program, host and device halves, as it is: nvcc builds it, its launches are executed here.

    program = load_program(source)               # extern "C" int scale(const float* x, float* y, int n) { ... <<<>>> }
    program.call("scale", x, Uninitialised(y), n)

The host half is compiled by nvcc's host compiler against a runtime of our own (`host/cudart.cpp`), the device half to
PTX, which the library carries. Host code is run in this process: give it sources that you trust, or be in the sandbox.

Covers: `<<<>>>`, cudaLaunchKernel(Ex), memory, symbols, streams, events, attributes, occupancy of CUDA's runtime.
Does not cover: what `host/cudart.cpp` does not define (graphs, textures, IPC), the driver's API, vendor libraries. They
are refused by name and line when it is built, and `dlopen`, by which a program would load the driver, too;
NVTX, which CUB includes, loads a profiler only where one is asked for.
"""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import InputError
from ..languages._process import run_tool
from . import _cudart, _native
from ._cudart import nvcc as find_nvcc
from ._memory import Uninitialised
from ._nvcc import contents, flags_for, included, standard, target_for, unknown_calls
from ._nvcc import version as nvcc_version
from .device import Device, device

_COMPILE_S: Final = 180.0


class Program:
    """A loaded library whose launches are executed."""

    def __init__(self, library: Path, held: Device) -> None:
        self._path = library
        self._library = _cudart.bind(library)
        self.device = held
        """Where it runs."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Call an `extern "C"` function that returns an int, or nothing; or what TVM FFI exports under the name.

        Args:
            name: Its name.
            arguments: Arrays and tensors of the CPU, given as pointers; `Uninitialised` outputs; numpy scalars by their
                own type, other integers as `int`, other floats as `double`. TVM FFI's functions get them as they are;
                their tensors say that they lie on the CPU.

        Raises:
            FaultError: a launch was found at fault.
            InputError: no such function.
        """
        packed = hasattr(self._library, f"__tvm_ffi_{name}")
        function = _exported(self._path, name) if packed else getattr(self._library, name, None)
        if function is None:
            raise InputError(
                f'the program exports no {name!r}; declare it `extern "C"`, or TVM_FFI_DLL_EXPORT_TYPED_FUNC'
            )
        spans = [self.device.span(a, f"argument {n}") for n, a in enumerate(arguments)]
        with self.device.lending([s for s in spans if s is not None]):
            return self.device.call(function, *(_held(a) if packed else _passed(a) for a in arguments))


def load_program(
    source: str, *, target: str = "", flags: Sequence[str] = (), include: Sequence[Path] = ()
) -> Program:
    """Build a program of one `.cu` file and load it.

    Args:
        source: Text of the file.
        target: `sm_80`, `sm_90a` ...; by default what the source needs.
        flags: More words for nvcc.
        include: Folders of headers.

    Raises:
        InputError: where nvcc refuses the source, or it calls what is not executed.
        MissingToolError: where there is no nvcc.
    """
    nvcc = find_nvcc()
    target = target or target_for(source)
    words = [nvcc, *flags_for(target), *standard(flags), *_ffi_words(source), *flags]
    made_of = [nvcc_version(nvcc), *words, contents(include), source]
    name = _native.key(b"program, linked", *(part.encode() for part in made_of))

    def build(folder: Path, into: Path) -> None:
        (folder / "kernel.cu").write_text(source)
        with _cudart.linked(nvcc, folder) as runtime:
            done = run_tool(
                [*words, *included(include), "-shared", "-Xcompiler", "-fPIC", "kernel.cu", runtime, "-o", into.name],
                deadline_s=_COMPILE_S, folder=folder, closed=True, readable=include,
            )  # fmt: skip
        if done.timed_out:
            raise InputError(f"nvcc did not end within {_COMPILE_S:g} s")
        if done.returncode != 0:
            raise InputError(f"nvcc refused the source:\n{done.output[:4000]}")
        if unknown := unknown_calls(into, {"kernel.cu": source}):
            raise InputError(unknown)

    library = _native.cached(name, build)
    held = device()
    held.start(_cudart.built(nvcc))
    return Program(library, held)


def _exported(library: Path, name: str) -> Callable[..., Any]:
    from ..languages._destination import load_entry

    return load_entry(library, name)


def _ffi_words(source: str) -> Sequence[str]:
    """Return the words by which nvcc finds TVM FFI's headers, where a source includes some."""
    if "tvm/ffi" not in source:
        return ()
    from ..languages._ffi import ffi_includes

    return ffi_includes()


def _held(value: Any) -> Any:
    return value.array if isinstance(value, Uninitialised) else value


def _passed(value: Any) -> Any:
    value = _held(value)
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if hasattr(value, "data_ptr"):
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, np.generic):
        dtype: Any = value.dtype
        kind: Any = np.ctypeslib.as_ctypes_type(dtype)
        return kind(value.item())
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise InputError(
                f"{value} is given to a function of the program; expected a number of at most 64 bits"
            )
        return ctypes.c_uint64(value % (1 << 64))  # whose lower half a function sees that takes 32 bits
    return ctypes.c_double(value) if isinstance(value, float) else value
