"""Candidates of GPU languages: run by a GPU where there is one, else executed from their PTX, never timed.

| language | on a machine without a GPU |
|---|---|
| `cuda` | every call is executed under the sanitiser; a finding ends it with an error |
| `triton` | interpreted, or executed as `gluon` is where it cannot be; one more call is executed (`sanitised`) |
| `gluon` | every call is executed under the sanitiser |

The build translates every kernel and leaves the libraries in the artefact, so that workers compile nothing of `cuda`.

Covers: host code of `cuda` candidates as it is (`program.py`); Triton launches, of autotuners one configuration.
Does not cover: times; candidates that find the executor in their process and change it, whose answers are compared as
ever by the judge.
"""

import functools
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from ..errors import MissingToolError
from ..languages import Kernel
from ..languages import cuda as real_cuda
from ..languages import gluon as real_gluon
from ..languages import triton as real_triton
from ..languages._cuda_targets import architecture
from ..languages._destination import Destination, load_entry
from ..languages._entry import source_of, split_entry
from ..languages._inline import NotLiteralError, calls_in, key_of
from ..languages.cpp import LIBRARY
from ..languages.torch import check_python, load_symbol
from ..records import Build, BuildStatus, Candidate, ModelledTime, TensorSpec
from . import _cudart, _native, inline
from ._extension import FLAGS, compile_inline
from ._loading import (
    FOLDER,
    OTHER_SEED,
    TARGET,
    Executed,
    OnlyExecuted,
    by_triton,
    executes,
    modelled_launches,
    options,
    version,
)
from ._nvcc import flags_for, unknown_calls
from .device import device
from .module import Module, Options
from .python import in_place_of_a_gpu

_RUNTIME: Final = "cudart.so"
_NOT_INTERPRETED: Final = re.compile(
    r"bfloat16|bf16|float8|fp8|inline_asm_elementwise|make_block_ptr|tl\.(dot|dot_scaled|sort|topk|histogram|gather|associative_scan)\b"
)
"""What Triton's interpreter lacks, gets wrong, or needs minutes for."""


class Cuda(real_cuda.Cuda):
    """CUDA C++; executed where there is no GPU."""

    def toolchain(self) -> str:
        """Name nvcc, flags, targets, and that the PTX is executed."""
        return super().toolchain() + (f", executed as {TARGET} by {version()}" if executes() else "")

    def compile(self, nvcc: str, candidate: Candidate, folder: Path, deadline_s: float) -> Build:
        """Compile for the targets, and without a GPU for the executor too."""
        if not executes():
            return super().compile(nvcc, candidate, folder, deadline_s)
        if real_cuda.by_python(candidate):
            return _python(nvcc, candidate, folder, deadline_s)
        ptx = flags_for(architecture(TARGET, candidate))
        with ThreadPoolExecutor(1) as pool, _cudart.linked(nvcc, folder) as runtime:
            pool.submit(_native.engine_library)
            built = real_cuda.compile_with(nvcc, candidate, folder, deadline_s, [*ptx, runtime])
        return built if built.status is not BuildStatus.OK else _prepared(nvcc, candidate, folder, built)

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load the library; without a GPU its launches are executed on tensors of the CPU."""
        if not executes():
            return super().load(candidate, artefact, outputs)
        _start(artefact)
        if real_cuda.by_python(candidate):
            device().options = options()
            inline.install(artefact / FOLDER)
            return _on_device(lambda: load_symbol(candidate, artefact), candidate.style)
        device().options = options()
        _cudart.bind(artefact / LIBRARY)
        entry = load_entry(artefact / LIBRARY, split_entry(candidate.entry)[1])
        device().prepare()
        given = functools.partial(device().call, entry, outputs=len(outputs))
        return Destination(given, outputs, strided=candidate.parameters.get("strided") is True)

    def executes(self) -> bool:
        """Tell whether kernels are executed here."""
        return executes()

    def load_executed(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load it so that blocks, warps and lanes come in another order than in `load`."""
        kernel = self.load(candidate, artefact, outputs)
        device().options = options(OTHER_SEED)
        return kernel

    def load_counted(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load it so that what is executed is counted too, for `modelled`."""
        kernel = self.load(candidate, artefact, outputs)
        device().options = options(count=True)
        return kernel

    def modelled(self, registers: int) -> list[ModelledTime]:
        """Model the launches since it was last asked of what `load_counted` loaded."""
        return modelled_launches(registers)


class Triton(Executed, real_triton.Triton):
    """Triton; interpreted where there is no GPU, and executed where that is asked for or nothing else can."""

    def only_executed(self, candidate: Candidate, outputs: tuple[TensorSpec, ...]) -> bool:
        """Tell whether every call is executed, since the interpreter is wrong, slow or without what it uses."""
        rare = any(_NOT_INTERPRETED.search(s.text) for s in candidate.sources)
        return executes() and (rare or any(o.dtype == "bfloat16" for o in outputs))

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Return the entry; without a GPU interpreted, or executed."""
        if self.only_executed(candidate, outputs):
            return self._executed(candidate, artefact, outputs, options())
        if not executes():
            return super().load(candidate, artefact, outputs)
        own = functools.partial(super().load, candidate, artefact, outputs)
        return _on_device(own, candidate.style)

    def load_executed(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load it so that every launch is executed; in another order, where `load` executes too."""
        seed = OTHER_SEED if self.only_executed(candidate, outputs) else 0
        return self._executed(candidate, artefact, outputs, options(seed))

    def load_counted(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load it so that what is executed is counted too, for `modelled`."""
        return self._executed(candidate, artefact, outputs, options(count=True))

    def _executed(
        self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...], how: Options
    ) -> Kernel:
        return _on_device(lambda: by_triton(candidate, artefact, outputs, how), candidate.style)


class Gluon(OnlyExecuted, real_gluon.Gluon):
    """Gluon; executed where there is no GPU."""


def _prepared(nvcc: str, candidate: Candidate, folder: Path, built: Build) -> Build:
    """Put what executes the built library next to it: translated kernels, the engine, CUDA's runtime."""
    library = folder / LIBRARY
    unknown = unknown_calls(library, {s.path: s.text for s in candidate.sources})
    if unknown:
        return Build(status=BuildStatus.UNAVAILABLE, diagnostics=unknown)
    place, findings, libraries = folder / FOLDER, list(built.findings), []
    for ptx in filter(None, _cudart.ptx_of(library)):
        made, refused = Module.load(ptx, assembled=True).build()
        libraries += made
        findings += refused
    _native.leave_in(place, libraries)
    shutil.copyfile(_cudart.built(nvcc), place / _RUNTIME)
    return built.model_copy(update={"findings": tuple(findings)})


def _python(nvcc: str, candidate: Candidate, folder: Path, deadline_s: float) -> Build:
    """Check a Python file that builds an extension, and build that for the executor."""
    checked = check_python(candidate, ())
    if checked.status is not BuildStatus.OK:
        return checked
    text, _ = source_of(candidate)
    place, refused = folder / FOLDER, []
    try:
        calls = calls_in(text, FLAGS)
    except NotLiteralError as error:
        return Build(status=BuildStatus.UNAVAILABLE, diagnostics=f"not executed: {error}")
    place.mkdir(exist_ok=True)
    with ThreadPoolExecutor() as pool:  # on a new machine these take longer than the candidate
        runtime = pool.submit(_cudart.built, nvcc)
        pool.submit(_native.engine_library)

        def translate(ptx: str) -> None:
            pool.submit(lambda: Module.load(ptx, assembled=True).build())

        for call in calls:
            built = compile_inline(nvcc, call, place, deadline_s, translate)
            if built.status is not BuildStatus.OK:
                return built
    libraries = [_native.engine_library()]
    for call in calls:
        for ptx in filter(None, _cudart.ptx_of(place / f"{key_of(call)}.so")):
            made, left = Module.load(ptx, assembled=True).build()
            libraries += made
            refused += left
    _native.leave_in(place, libraries)
    shutil.copyfile(runtime.result(), place / _RUNTIME)
    return Build(status=BuildStatus.OK, findings=tuple(refused))


def _on_device(load: Callable[[], Kernel], style: str) -> Kernel:
    """Return the entry of a Python file that asks for a GPU; its kernels are executed on tensors of the CPU."""
    with in_place_of_a_gpu():
        symbol = load()

    def moved(call: Callable[..., Any], *arguments: Any) -> Any:
        with in_place_of_a_gpu():
            return call(*arguments)

    if style != "module":
        return functools.wraps(symbol)(functools.partial(moved, symbol))

    @functools.wraps(symbol, updated=())
    def make(*init: Any, **keywords: Any) -> Any:
        with in_place_of_a_gpu():
            module = symbol(*init, **keywords)
        module.forward = functools.partial(moved, module.forward)
        return module

    return make


def _start(artefact: Path) -> None:
    """Let this process find the libraries of the build, and CUDA's runtime."""
    place = artefact / FOLDER
    if not (place / _RUNTIME).is_file():
        raise MissingToolError(f"{str(artefact)!r} was built where there is a GPU; build the candidate here")
    _native.adopt(place)
    device().start(place / _RUNTIME)
