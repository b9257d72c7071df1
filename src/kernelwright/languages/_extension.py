"""C++ source → extension module of this Python, on the headers of Python and of torch's core."""

import importlib.util
import logging
import sysconfig
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

import torch

from ..config import Settings
from ..records import Build, BuildStatus, Candidate, SourceFile
from ._cache import cached_build
from ._ffi import ffi_includes
from ._process import run_tool
from .cpp import LIBRARY, Cpp
from .vectors import headers_of

_LOG = logging.getLogger(__name__)
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_DEADLINE_S = 600.0
_HEADERS = Path(__file__).with_name("extensions")


def load_extension(source: Path, settings: Settings | None = None) -> ModuleType | None:
    """Build an extension module and load it; None where it cannot be, as without a compiler or Python's headers.

    Args:
        source: A C++ file, which defines `PyInit_NAME` for its own name and offers `use` of `python_tensors.h`.
        settings: Where the cache of builds is, and which compiler is used.
    """
    settings = settings or Settings.from_environment()
    language = Cpp(settings)
    compiler = language.compiler()
    if compiler is None:
        return None
    torch_home, name = Path(torch.__file__).parent, source.stem
    command: list[str | Path] = [
        compiler, *_FLAGS, "-isystem", sysconfig.get_path("include"), "-isystem", torch_home / "include", source.name,
        *ffi_includes(), "-o", LIBRARY, f"-L{torch_home / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python",
    ]  # fmt: skip

    def build(folder: Path) -> Build:
        done = run_tool(command, deadline_s=_DEADLINE_S, folder=folder, closed=True)
        status = (
            BuildStatus.TIMEOUT
            if done.timed_out
            else BuildStatus.FAILED
            if done.returncode
            else BuildStatus.OK
        )
        return Build(status=status, diagnostics=done.output)

    file = SourceFile(path=source.name, text=source.read_text())
    sources = (file, *headers_of(file.text, (_HEADERS,)))
    candidate = Candidate(sources=sources, language="cpp", entry=f"{source.name}:PyInit_{name}", flags=_FLAGS)
    toolchain = f"{language.toolchain()} torch={torch.__version__} python={sysconfig.get_config_var('SOABI')}"
    made = cached_build(settings.cache, candidate, toolchain, build)
    if made.status is not BuildStatus.OK:
        _LOG.info("extension %s is not used: %s", name, made.diagnostics[:500])
        return None
    loader = ExtensionFileLoader(name, str(Path(made.artefact or ".") / LIBRARY))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    tensor, parameter = torch.ones(1), torch.nn.Parameter(torch.ones(1))
    return module if module.use(tensor, tensor._cdata, parameter, parameter._cdata) else None
