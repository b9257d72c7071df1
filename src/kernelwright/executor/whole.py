"""A whole CUDA program, from `main` on, in a process of its own: its launches are executed.

    python -m kernelwright.executor.whole FOLDER PROGRAM [WORD ...]

The program is built by its own command and the words of `linking`, which make it a library that is linked with a
runtime of our own; `prepared` translates its kernels into a folder, so that the process that runs it compiles nothing.

Covers: what `program.py` covers, of one source or several, each with kernels of its own.
Does not cover: kernels that are linked from several sources (`-rdc=true`), or launch others.
"""

import ctypes
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..errors import InputError, KernelwrightError
from . import _cudart, _native
from ._cudart import nvcc
from ._nvcc import flags_for, target_for, unknown_calls
from .device import device
from .module import Module, Options

FAULT: Final = 86
"""Exit code of a program that was stopped because a launch was found at fault."""
NOT_EXECUTED: Final = 87
"""Exit code of a program that was stopped because a launch holds what is not executed."""
RETURNED: Final = "main returned"
"""What the last line of a program begins with whose `main` returned; its code follows."""
_PREPARED: Final = "executor"
_RUNTIME: Final = "cudart.so"
_LAUNCH_S: Final = 120.0


@contextmanager
def linking(folder: Path, texts: Sequence[str]) -> Iterator[str]:
    """Put the runtime into a folder where a program is built, and yield the words that its nvcc command takes besides.

    Args:
        folder: Where it is built.
        texts: The program's sources, which say what target they need.

    Raises:
        InputError: its kernels are linked from several sources.
        MissingToolError: where there is no nvcc.
    """
    words = flags_for(target_for("\n".join(texts)))
    with _cudart.linked(nvcc(), folder) as runtime:
        yield shlex.join([*words, "-shared", "-Xcompiler", "-fPIC", runtime])


def prepared(library: Path, into: Path, sources: dict[str, str]) -> str:
    """Translate a built program's kernels into a folder; say what of it is not executed, empty if nothing.

    Args:
        library: What was built; it is read, not loaded.
        into: The folder that the process is given that runs it.
        sources: Its texts by path.
    """
    if unknown := unknown_calls(library, sources):
        return unknown
    libraries = [_native.engine_library()]
    for ptx in filter(None, _cudart.ptx_of(library)):
        try:
            made, _ = Module.load(ptx, assembled=True).build()
        except InputError as error:
            return str(error)
        libraries += made
    _native.leave_in(into / _PREPARED, libraries)
    shutil.copyfile(_cudart.built(nvcc()), into / _PREPARED / _RUNTIME)
    return ""


def command(folder: Path, program: str) -> str:
    """Return the words that run a program that was prepared in a folder; its own words follow them."""
    return shlex.join([sys.executable, "-m", "kernelwright.executor.whole", str(folder), program])


def main(words: Sequence[str]) -> int:
    """Run a program to its end and return its exit code; a launch at fault ends it with the reason as last line.

    What `main` returned is printed, since a program can end otherwise, and with another code.
    """
    place = Path(words[0]) / _PREPARED
    _native.adopt(place)
    held = device()
    held.start(place / _RUNTIME)
    held.told = _end
    held.options = Options(count=False, deadline_s=_LAUNCH_S, threads=len(os.sched_getaffinity(0)))
    program = _cudart.bind(Path(words[0]) / words[1])
    held.prepare()
    argv = (ctypes.c_char_p * (len(words)))(*(w.encode() for w in words[1:]), None)
    program.main.restype = ctypes.c_int
    code = int(program.main(len(words) - 1, argv)) & 0xFF
    ctypes.CDLL(None).fflush(None)
    os.write(1, f"\n{RETURNED} {code}\n".encode())
    return code


def _end(error: KernelwrightError) -> None:
    """End the process: what a program makes of a launch that failed says nothing about the program."""
    ctypes.CDLL(None).fflush(None)
    os.write(1, f"\n{' '.join(str(error).split())}\n".encode())
    runs = device().runs
    os._exit(FAULT if runs and runs[-1].findings else NOT_EXECUTED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
