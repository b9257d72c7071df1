"""Load a specialisation's sources: Python as a module, C++ compiled once and called through the TVM FFI ABI."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch


class Unavailable(RuntimeError):
    """The specialisation cannot be loaded on this machine; the native op serves."""


def load_python(folder: Path, entry: str, **given: Any) -> Any:
    """Import `path:symbol` below `folder` under a name of its own, with `given` as globals.

    Files beside it can be imported by their bare names, whatever else bears those names in this process.
    """
    path, _, symbol = entry.partition(":")
    name = "specialisation_" + hashlib.sha256(str(folder / path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(name, folder / path)
    if spec is None or spec.loader is None:
        raise Unavailable(f"cannot import {folder / path}")
    module = importlib.util.module_from_spec(spec)
    vars(module).update(given)
    sys.modules[name] = module
    with _importable((folder / path).parent):
        spec.loader.exec_module(module)
    return getattr(module, symbol)


@contextmanager
def declaring() -> Iterator[None]:
    """Let a reference be loaded that declares its task by `@kw.task(...)` where Kernelwright is not installed."""
    before = sys.modules.get("kernelwright")
    try:
        importlib.import_module("kernelwright")
    except ImportError:
        sys.modules["kernelwright"] = _Declarations("kernelwright")
    try:
        yield
    finally:
        if isinstance(sys.modules["kernelwright"], _Declarations):
            del sys.modules["kernelwright"]
            sys.modules |= {"kernelwright": before} if before else {}


class _Declarations(ModuleType):
    """Stands for Kernelwright while a reference is loaded: what declares is taken, and changes nothing."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: lambda function: function


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    own = {p.name.removesuffix(".py") for p in folder.iterdir()}
    before = {n: sys.modules.pop(n) for n in list(sys.modules) if n.partition(".")[0] in own}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.modules.update(before)


def load_cpp(folder: Path, flags: tuple[str, ...]) -> Any:
    """Compile the C++ files of `folder` (once; the library is kept) and load them; kernels are attributes.

    Raises:
        Unavailable: no C++ compiler, a failed compilation, or no `tvm_ffi`.
    """
    try:
        import tvm_ffi
        from tvm_ffi import libinfo
    except ImportError as error:
        raise Unavailable("tvm_ffi is missing: pip install apache-tvm-ffi") from error
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise Unavailable("no C++ compiler: install g++ or clang++, or set CXX")
    placed = [flag.replace("@torch", str(Path(torch.__file__).parent)) for flag in flags]
    text = b"".join(p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file() and p.suffix != ".so")
    name = hashlib.sha256(b"\0".join([compiler.encode(), " ".join(placed).encode(), text])).hexdigest()[:16]
    library = _library_folder(folder) / f"kernel-{name}.so"
    if not library.exists():
        handle, unfinished = tempfile.mkstemp(suffix=".so", dir=library.parent)
        os.close(handle)
        sources = sorted(str(p) for p in folder.iterdir() if p.suffix in {".cpp", ".cc", ".cxx"})
        libraries = [flag for flag in placed if flag.startswith(("-l", "-L"))]
        command = [
            compiler, *(f for f in placed if f not in libraries), "-fopenmp",
            f"-I{libinfo.find_include_path()}", f"-I{folder}",
            *sources, "-o", unfinished, *libraries, *_openmp_of_torch(compiler),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            Path(unfinished).unlink()
            raise Unavailable(f"the C++ compiler failed: {done.stderr[-2000:]}")
        Path(unfinished).replace(library)
    return tvm_ffi.load_module(str(library))


def _openmp_of_torch(compiler: str) -> list[str]:
    """Link g++'s kernels against the libgomp in torch's wheel, so that both share one pool of threads."""
    home = Path(torch.__file__).parent
    copies = sorted([*home.glob("lib/libgomp*.so*"), *home.parent.glob("torch.libs/libgomp*.so*")])
    return ["-Wl,--as-needed", str(copies[0])] if copies and "clang" not in compiler else []


def _library_folder(folder: Path) -> Path:
    """Return the specialisation's folder if it can be written to, else a private one of this user."""
    if os.access(folder, os.W_OK):
        return folder
    private = Path(tempfile.gettempdir()) / f"kernelwright-{os.getuid()}"
    private.mkdir(mode=0o700, exist_ok=True)
    if private.stat().st_uid != os.getuid():
        raise Unavailable(f"{private} belongs to somebody else; remove it or set TMPDIR")
    return private


def hollow(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Make a tensor without memory, for `torch.empty_like`: half the time of `torch.empty` with a shape."""
    made = torch.empty(shape, dtype=dtype, device=device)
    made.untyped_storage().resize_(0)
    return made


def destination(
    kernel: Callable[..., None], likes: Sequence[torch.Tensor], arguments: tuple[Any, ...]
) -> Callable[..., Any]:
    """Turn `kernel(*inputs, *outputs)` into a function that allocates and returns its outputs.

    Args:
        kernel: What writes the outputs.
        likes: A tensor without memory for each output.
        arguments: A call's; which of them are tuples is the same in every call.
    """
    flat = not any(isinstance(a, tuple | list) for a in arguments)

    def one(*arguments: Any) -> Any:
        out = torch.empty_like(likes[0])
        kernel(*arguments, out)
        return out

    def several(*arguments: Any) -> Any:
        outputs = tuple([torch.empty_like(like) for like in likes])
        kernel(*(e for a in arguments for e in (a if isinstance(a, tuple | list) else (a,))), *outputs)
        return outputs if len(outputs) != 1 else outputs[0]

    return one if flat and len(likes) == 1 else several
