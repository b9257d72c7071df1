"""TileLang's kernels on a machine without a GPU: the CUDA program that it writes is built and executed as it is.

TileLang's `cython` backend writes one `.cu` file, kernels and the host's half, and has nvcc build a library of it. Here
nvcc builds it for the executor's runtime (`program.py`), and calls of it are executed on tensors of the CPU.

Covers: whatever backend and target of CUDA a candidate names; tensor maps; bytes of `torch.empty` that nobody wrote.
Does not cover: autotuning, which would time; other targets; several devices.
"""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from ..errors import MissingToolError
from ..languages import Availability, Kernel, tilelang
from ..languages._package import imported
from ..languages._process import run_tool
from ..languages.torch import load_symbol
from ..records import Candidate, TensorSpec
from . import _cudart, _native
from ._cudart import nvcc
from ._lending import Lending
from ._loading import FOLDER, TARGET, OnlyExecuted, called_by, needs_nvcc
from ._nvcc import flags_for, unknown_calls
from .device import device
from .module import Options

_COMPILE_S: Final = 180.0


class TileLang(OnlyExecuted, tilelang.TileLang):
    """TileLang; executed where there is no GPU."""

    def available(self) -> Availability:
        """Report the package's version, and whether nvcc is here to execute its kernels by."""
        return needs_nvcc(super().available())

    def libraries(self) -> list[Path]:
        """Return the engine and CUDA's runtime."""
        return [*super().libraries(), _cudart.built(nvcc())]

    def load_in_order(
        self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...], how: Options
    ) -> Kernel:
        """Load it so that what TileLang builds is built for the executor, and executed."""
        _native.adopt(artefact / FOLDER)
        compiler = nvcc()
        device().options = how
        device().start(_cudart.built(compiler))
        lending = Lending()
        _redirect(imported("tilelang"), compiler, lambda function: self.watched(_lending(function, lending)))
        return called_by(lending.call, load_symbol(candidate, artefact), candidate, outputs)


def _redirect(package: Any, compiler: str, around: Callable[..., Any]) -> None:
    """Have TileLang compile for one target, by one backend, into libraries whose calls are executed."""
    from tilelang.backend import module, target
    from tilelang.jit.adapter import cython, libgen

    package.disable_cache()
    chosen = {"kind": "cuda", "arch": TARGET}
    target.register_target_detector("cuda", lambda: chosen, override=True)
    target.register_target_normalizer("cuda", lambda t: chosen if _is_plain(t) else None, override=True)
    resolve = module.BackendModule.resolve_execution_backend
    module.BackendModule.resolve_execution_backend = lambda backends, _, on: resolve(
        backends, "cython" if on.kind.name == "cuda" else "auto", on
    )
    libgen.get_nvcc_compiler = lambda: compiler
    libgen.subprocess = SimpleNamespace(run=_built)
    load = libgen.LibraryGenerator.load_lib
    libgen.LibraryGenerator.load_lib = lambda made, path=None: _Library(load(made, path))
    adapter = cython.CythonKernelAdapter
    adapter._process_buffer_device = lambda _: {}
    convert = adapter._convert_torch_func
    adapter._convert_torch_func = lambda made: around(convert(made))


def _is_plain(target: object) -> bool:
    """Tell whether a target is CUDA's without saying for which GPU."""
    return target == "cuda" or (
        isinstance(target, dict) and target.get("kind") == "cuda" and "arch" not in target
    )


def _built(command: Sequence[str], **_: Any) -> Any:
    """Run TileLang's nvcc command so that it leaves PTX in the library, to be loaded with a runtime of our own."""
    words = [str(word) for word in command]
    at = words.index("-gencode")
    made = flags_for(words[at + 1].partition(",")[0].removeprefix("arch="))
    words[at : at + 2] = made
    words = [word for word in words if word != "-lcuda"]
    source, library = next(Path(w) for w in words if w.endswith(".cu")), Path(words[words.index("-o") + 1])
    readable = [Path(w[2:]) for w in words if w.startswith("-I")]
    done = run_tool(words, deadline_s=_COMPILE_S, folder=source.parent, closed=True, readable=readable)
    if done.timed_out or done.returncode != 0:
        said = f"no end after {_COMPILE_S:g} s" if done.timed_out else done.output[:4000]
        raise RuntimeError(f"nvcc refused what TileLang wrote:\n{said}")
    if unknown := unknown_calls(library, {source.name: source.read_text()}):
        raise MissingToolError(unknown)
    return subprocess.CompletedProcess(words, 0)


class _Library:
    """A library that TileLang built: calls of it are executed."""

    def __init__(self, library: Any) -> None:
        self._library = library
        device().prepare()

    def call(self, *arguments: Any) -> Any:
        """Call the kernels' host function."""
        return device().call(self._library.call, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


def _lending(function: Callable[..., Any], lending: Lending) -> Callable[..., Any]:
    """Return a compiled kernel's function, which lets it touch the tensors that it is given."""

    def call(*arguments: Any, **named: Any) -> Any:
        lending.lend((arguments, named))
        return function(*arguments, **named)

    return call
