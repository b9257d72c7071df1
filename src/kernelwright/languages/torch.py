"""Python sources that call torch; styles `function` and `module`.

A candidate is one or more Python files with an entry `path:symbol`. Files may import each other by their
bare names. Style `function`: `symbol(*arguments, *state)` returns a tensor or a tuple of tensors.

    # fused.py, entry "fused.py:run"
    import torch

    def run(x, weight):
        if x.dim() != 2:
            raise NotImplementedError("Unsupported: x must have 2 dimensions")
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight)

Style `module`: `symbol(*init)` makes a module, which is given the task's state and then called with the
arguments. `Torch.load` returns the class itself; the worker makes the instance.

Flags `--compile=default`, `--compile=max-autotune`, `--compile=freezing` and `--compile=max-autotune-freezing`
wrap it in `torch.compile`: a function is returned compiled; a class is returned as a maker whose instances are
compiled after they are made (state is loaded into the inner module). With `freezing` the weights of the first
call are compiled in, as constants or packed, and later changes are tracked in part or not at all.

Flags `--runtime=openvino` and `--runtime=onnxruntime` convert the reference for another runtime (`_runtimes.py`): they
are for the judge's baselines, and the pool refuses a candidate that carries one.
"""

import ast
import atexit
import functools
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import torch

from ..config import Settings
from ..errors import InputError
from ..records import Build, BuildStatus, Candidate, TensorSpec
from ._cache import cached_build, write_sources
from ._destination import Destination
from ._entry import source_of, split_entry
from ._protocol import Availability, Kernel
from ._runtimes import RUNTIMES, converted

COMPILE_FLAGS = (
    "--compile=default", "--compile=max-autotune", "--compile=freezing", "--compile=max-autotune-freezing",
)  # fmt: skip
"""The flags that ask torch.compile for something; at most one is given, of these and `RUNTIME_FLAGS`."""
RUNTIME_FLAGS = tuple(f"--runtime={name}" for name in RUNTIMES)
"""The flags that ask for another runtime; the judge's own baselines alone may carry them."""


class Torch:
    """Python candidates on torch."""

    name = "torch"

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    def available(self) -> Availability:
        """Report the torch version; it is always available."""
        return Availability(True, self.toolchain())

    def toolchain(self) -> str:
        """Name Python's and torch's versions."""
        return f"python {sys.version.split()[0]}, torch {torch.__version__}"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:  # noqa: ARG002
        """Check that every Python file parses, that the entry names one, and that the flags are known."""
        return cached_build(
            self._settings.cache,
            candidate,
            self.toolchain(),
            lambda _: check_python(candidate, (*COMPILE_FLAGS, *RUNTIME_FLAGS)),
        )

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Return the entry: the function, for `module` the class, for `destination` a wrapper that makes outputs."""
        return returning(compiled(load_symbol(candidate, artefact), candidate), candidate, outputs)

    def timeable(self, device: str) -> bool:  # noqa: ARG002
        """Whether times are meaningful on the device: always."""
        return True


def check_python(candidate: Candidate, flags: tuple[str, ...]) -> Build:
    """Parse the candidate's Python files without running them; failure names file and line."""
    problem = _flag_problem(candidate, flags) or python_problem(candidate)
    if problem is not None:
        return Build(status=BuildStatus.FAILED, diagnostics=problem)
    return Build(status=BuildStatus.OK)


def python_problem(candidate: Candidate) -> str | None:
    """Return what is wrong with the entry or the syntax of the Python files; None if nothing is."""
    problem = _entry_problem(candidate)
    for source in candidate.sources:
        if problem is None and source.path.endswith(".py"):
            problem = _syntax_problem(source.path, source.text)
    return problem


def load_symbol(
    candidate: Candidate, artefact: Path, given: Mapping[str, object] = MappingProxyType({})
) -> Kernel:
    """Run the entry's file as a separate module and return the entry's symbol.

    `given` are globals that the module finds when it is run.

    Raises:
        InputError: the file does not define the symbol.
    """
    path, symbol = split_entry(candidate.entry)
    folder = artefact if (artefact / path).is_file() else _unpacked(candidate)
    module = _run_file(folder / path, f"kernelwright_candidate_{candidate.key}", given)
    if not hasattr(module, symbol):
        raise InputError(f"{path!r} defines no {symbol!r}; expected the entry {candidate.entry!r} to name it")
    entry: Kernel = getattr(module, symbol)
    return entry


def compiled(symbol: Kernel, candidate: Candidate) -> Kernel:
    """Wrap the entry in `torch.compile` if the candidate's flags require it."""
    asked = [flag for flag in candidate.flags if flag in (*COMPILE_FLAGS, *RUNTIME_FLAGS)]
    if not asked:
        return symbol
    if asked[0] in RUNTIME_FLAGS:
        is_module = candidate.style == "module"
        return converted(symbol, asked[0].partition("=")[2], makes_modules=is_module)
    options = _compiling(asked[0].partition("=")[2])
    if candidate.style != "module":
        wrapped: Kernel = torch.compile(symbol, **options)
        return wrapped

    @functools.wraps(symbol, updated=())
    def make(*init: Any, **keywords: Any) -> Any:
        module = symbol(*init, **keywords)
        module.compile(**options)  # in place: its state keeps its names
        return module

    return make


def returning(symbol: Kernel, candidate: Candidate, outputs: tuple[TensorSpec, ...]) -> Kernel:
    """Let a Python function of style `destination` write into outputs that are made for it, in any layout of inputs."""
    if candidate.style != "destination":
        return symbol
    return Destination(symbol, outputs, strided=True, device="")


def warm_compiler() -> None:
    """Do once what a first compilation does in every process: find the vector units, make headers, import.

    It starts no thread, so that the process may be forked afterwards.
    """
    _keep_headers()
    _keep_findings()
    with suppress(ImportError):  # torch.fx shows its progress by it, and that starts a thread
        importlib.import_module("tqdm").tqdm.monitor_interval = 0
    torch.compile(lambda x: x + 1)(torch.zeros(4))
    torch.compiler.reset()


def _keep_findings() -> None:
    """Let a cache keep what Inductor finds out in every process, for more than a second: vector units, its own version.

    Covers: units that this CPU names and that all compiled and loaded, with this torch and this compiler.
    Does not cover: a torch whose sources are edited in place; a new build of it has another version file.
    """
    units: Any = importlib.import_module("torch._inductor.cpu_vec_isa")
    builder: Any = importlib.import_module("torch._inductor.cpp_builder")
    codecache: Any = importlib.import_module("torch._inductor.codecache")
    named = units.x86_isa_checker()
    files = [Path(shutil.which(builder.get_cpp_compiler()) or "").resolve(), Path(torch.version.__file__)]
    versions = f"{torch.__version__} {named} {[(str(f), f.stat().st_mtime_ns) for f in files]}"
    known = (
        Path(codecache.cache_dir()) / f"findings-{hashlib.sha256(versions.encode()).hexdigest()[:16]}.json"
    )
    if known.exists():
        found = json.loads(known.read_text())
        codecache.torch_key.set(bytes.fromhex(found["torch"]))
        codecache.triton_key.set(found["triton"])
    else:
        wanted = [unit for unit in units.supported_vec_isa_list if set(str(unit).split()) <= set(named)]
        if wanted != units.valid_vec_isa_list():
            return
        found = {"torch": codecache.torch_key().hex(), "triton": codecache.triton_key()}
        new = known.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(found))
        new.replace(known)
    importlib.import_module("torch._inductor.config").cpp.vec_isa_ok = True


def _compiling(mode: str) -> dict[str, Any]:
    """Return the options of `torch.compile` for a mode, with Inductor set up for it."""
    _name_files_apart()
    _keep_headers()
    if mode.endswith("freezing"):
        import torch._inductor.config as inductor

        inductor.freezing = True
    return {"mode": "max-autotune" if mode.startswith("max-autotune") else None, "dynamic": False}


def _name_files_apart() -> None:
    """Give Inductor's temporary files names that are unique among workers.

    It names them after process and thread. Workers share these ids: each is the first process of its
    namespace, forked from one zygote, so two workers that fill one cache would write into the same file.
    """
    codecache: Any = importlib.import_module("torch._inductor.codecache")
    number = int.from_bytes(os.urandom(4), "little")
    codecache.os = SimpleNamespace(**{**vars(os), "getpid": lambda: number})


def _keep_headers() -> None:
    """Let Inductor keep its precompiled headers in its cache: each worker's temporary folder is new and empty."""
    codecache: Any = importlib.import_module("torch._inductor.codecache")
    folder = Path(codecache.cache_dir()) / "precompiled_headers"
    codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = str(folder), str(folder / "locks")


def _entry_problem(candidate: Candidate) -> str | None:
    try:
        source_of(candidate)
    except InputError as error:
        return str(error)
    return None


def _flag_problem(candidate: Candidate, flags: tuple[str, ...]) -> str | None:
    unknown = [flag for flag in candidate.flags if flag not in flags]
    if unknown:
        return f"flag {unknown[0]!r} is not known here; expected one of {', '.join(flags)}"
    if len(candidate.flags) > 1:
        return f"flags {candidate.flags!r} exclude each other; expected at most one"
    return None


def _syntax_problem(path: str, text: str) -> str | None:
    try:
        ast.parse(text, path)
    except SyntaxError as error:
        return f"{path}:{error.lineno}:{error.offset}: {error.msg}\n{(error.text or '').rstrip()}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{path}: cannot be parsed: {error}"
    return None


def _unpacked(candidate: Candidate) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # until then it may read the files next to it
    write_sources(candidate, folder)
    return folder


def _run_file(path: Path, name: str, given: Mapping[str, object]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path.name!r} is not a Python file; expected a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    vars(module).update(given)
    sys.modules[name] = module
    with _importable(path.parent):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        sys.path.remove(str(folder))
