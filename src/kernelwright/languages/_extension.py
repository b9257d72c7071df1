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
from ._process import run_tool
from .cpp import LIBRARY, Cpp

_LOG = logging.getLogger(__name__)
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_DEADLINE_S = 600.0


def load_extension(source: Path, settings: Settings | None = None) -> ModuleType | None:
    """Build an extension module and load it; None where it cannot be built, as without a compiler or Python's headers.

    Args:
        source: A C++ file, which defines `PyInit_NAME` for its own name.
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
        "-o", LIBRARY, f"-L{torch_home / 'lib'}", "-lc10",
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
    candidate = Candidate(sources=(file,), language="cpp", entry=f"{source.name}:PyInit_{name}", flags=_FLAGS)
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
    return module
