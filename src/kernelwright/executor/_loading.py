"""What languages share whose candidates are loaded to be executed: whether that is done here, how, and what is found.

Covers: candidates in Python, functions and modules, that launch kernels by way of Triton's compiler.
Does not cover: how other languages launch; each does that in a file of its own.
"""

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from ..devices.specs import specs
from ..errors import InputError, MissingToolError
from ..languages import Availability, Kernel
from ..languages.torch import load_symbol, returning
from ..records import Build, BuildStatus, Candidate, ModelledTime, TensorSpec, content_key
from . import _native
from ._cudart import nvcc
from ._errors import FaultError
from ._unwritten import launched, watching
from .device import KEPT_RUNS, blame, device
from .modelled import modelled
from .module import Options
from .results import Execution
from .triton import executing

TARGET: Final = "sm_90"
"""The target whose PTX is executed."""
FOLDER: Final = "executor"
"""Where a build keeps what executes it."""
DEVICE: Final = "h100-sxm"
"""The device of that target whose time is modelled."""
OTHER_SEED: Final = 1
_DEADLINE_S: Final = 15.0
_FOR_GOOD: Final = contextlib.ExitStack()
"""Holds what stays on until the worker ends."""


def executes() -> bool:
    """Tell whether kernels are executed here: no GPU runs them, and there is a C++ compiler to translate for."""
    return not torch.cuda.is_available() and any(shutil.which(name) for name in ("g++", "clang++"))


@functools.lru_cache
def version() -> str:
    """Name the executor by its own files: what it builds changes with them."""
    files = sorted(p for p in Path(__file__).parent.rglob("*") if p.suffix in {".py", ".h", ".cpp"})
    return content_key(*(part for p in files for part in (p.name, p.read_text())))


def options(seed: int = 0, *, count: bool = False) -> Options:
    """Return how a worker executes; of another seed in another order of blocks, warps and lanes."""
    return Options(seed=seed, count=count, deadline_s=_DEADLINE_S, threads=torch.get_num_threads())


def modelled_launches(registers: int) -> list[ModelledTime]:
    """Model the launches since this was last asked, in order; they must have been counted.

    Args:
        registers: Of a thread, the most over the candidate's kernels; 0 where nobody knows.

    Raises:
        InputError: what was launched has no model.
    """
    runs, device().runs = device().runs, []
    if len(runs) >= KEPT_RUNS:
        raise InputError(f"no model of a call with {KEPT_RUNS} launches or more")
    return [modelled(run.counters, specs()[DEVICE], registers=registers) for run in runs]


def needs_nvcc(status: Availability) -> Availability:
    """Say that a language is not here where its kernels are to be executed and there is no nvcc to do that by."""
    try:
        if status.ok and executes():
            nvcc()
    except MissingToolError as error:
        return Availability(False, f"{status.what}, but no nvcc to execute by", str(error))
    return status


def by_triton(candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...], how: Options) -> Kernel:
    """Load a candidate so that Triton's compiler makes PTX of every launch, which is executed."""
    import triton

    _native.adopt(artefact / FOLDER)
    triton.knobs.cache.dir = tempfile.mkdtemp(prefix="kernelwright-triton-")
    runs = _FOR_GOOD.enter_context(executing(target=90, options=how, launched=launched))
    return checked(load_symbol(candidate, artefact), candidate, outputs, (artefact, runs))


def checked(
    symbol: Any, candidate: Candidate, outputs: tuple[TensorSpec, ...], seen: tuple[Path, list[Execution]]
) -> Kernel:
    """Return the entry so that a call ends with an error where a launch in it was found at fault.

    `seen` is the folder of the candidate's files, whose names an error has without it, and the list of launches.
    """
    folder, runs = seen

    def call(entry: Callable[..., Any], *arguments: Any) -> Any:
        runs.clear()
        with watching():
            result = entry(*arguments)
        device().note(runs)
        wrong = next((run for run in runs if not run.ok), None)
        if wrong is not None:
            raise FaultError(blame(wrong.kernel, wrong).replace(f"{folder}/", ""))
        return result

    return called_by(call, symbol, candidate, outputs)


def called_by(
    call: Callable[..., Any], symbol: Any, candidate: Candidate, outputs: tuple[TensorSpec, ...]
) -> Kernel:
    """Return the entry, or the maker of modules, so that each call goes through `call(entry, *arguments)`."""

    @functools.wraps(symbol, updated=())
    def make(*init: Any, **keywords: Any) -> Any:
        module = symbol(*init, **keywords)
        module.forward = functools.partial(call, module.forward)
        return module

    if candidate.style == "module":
        return make
    return returning(functools.wraps(symbol)(functools.partial(call, symbol)), candidate, outputs)


class Executed:
    """What a language has whose kernels are executed here; stands before the language's own class."""

    def toolchain(self) -> str:
        """Name the language's tools and what executes."""
        own: str = super().toolchain()  # type: ignore[misc]  # the language's own class comes next
        return own + (f", executed by {version()}" if executes() else "")

    def compile(self, candidate: Candidate, folder: Path, deadline_s: float) -> Build:
        """Compile for the targets, and leave the engine next to it where that executes."""
        built: Build = super().compile(candidate, folder, deadline_s)  # type: ignore[misc]  # likewise
        if built.status is BuildStatus.OK and executes():
            _native.leave_in(folder / FOLDER, self.libraries())
        return built

    def libraries(self) -> list[Path]:
        """Return what workers would have to build otherwise."""
        return [*_native.engine_libraries(), *_native.headers_of_any()]

    def executes(self) -> bool:
        """Tell whether kernels are executed here."""
        return executes()

    def modelled(self, registers: int) -> list[ModelledTime]:
        """Model the launches since it was last asked of what `load_counted` loaded."""
        return modelled_launches(registers)


class OnlyExecuted(Executed):
    """The same for a language that has nothing else to run its kernels by: every call is executed."""

    watched: Callable[[Callable[..., Any]], Callable[..., Any]] = staticmethod(lambda launch: launch)
    """Makes of a launch one that is watched."""

    def watch_launches(self, watched: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Have launches of what is loaded from now on go through what `watched` makes of them."""
        self.watched = watched

    @property
    def executed(self) -> tuple[str, ...]:
        """The targets whose kernels run here without the device."""
        return (TARGET,) if executes() else ()

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load it so that its launches are executed; where there is a GPU, as its own language does."""
        if executes():
            return self.load_in_order(candidate, artefact, outputs, options())
        kernel: Kernel = super().load(candidate, artefact, outputs)  # type: ignore[misc]  # likewise
        return kernel

    def load_executed(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load it so that blocks, warps and lanes come in another order than in `load`."""
        return self.load_in_order(candidate, artefact, outputs, options(OTHER_SEED))

    def load_counted(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load it so that what is executed is counted too, for `modelled`."""
        return self.load_in_order(candidate, artefact, outputs, options(count=True))

    def load_in_order(
        self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...], how: Options
    ) -> Kernel:
        """Load it to be executed in one way; by Triton's compiler, where the language has no other."""
        return by_triton(candidate, artefact, outputs, how)
