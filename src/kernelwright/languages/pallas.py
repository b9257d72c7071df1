"""Pallas, the kernel language of JAX for TPUs; style `function`. Executed in interpret mode on the CPU, never timed.

A candidate is Python; its entry takes and returns JAX arrays and calls `pallas_call`:

    # softmax.py, entry "softmax.py:run"
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    def softmax(x_ref, out_ref):
        value = x_ref[...]
        value = jnp.exp(value - value.max(axis=1, keepdims=True))
        out_ref[...] = value / value.sum(axis=1, keepdims=True)

    def run(x):
        if x.ndim != 2 or x.shape[0] % 8:
            raise NotImplementedError("Unsupported: x must be a matrix of a multiple of 8 rows")
        block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
        return pl.pallas_call(
            softmax, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // 8,),
            in_specs=[block], out_specs=block)(x)

On the first call with each shapes, and beyond that the answer is compared by the judge as any:

- every grid and block specification is checked (`_pallas_grid.py`): index maps in bounds at every grid point, each
  block of an output written, and revisited only by neighbouring grid points;
- the call is lowered to Mosaic, the TPU compiler's input, which refuses what a TPU cannot do, such as blocks whose last
  two dimensions are no multiples of 8 and 128. Mosaic's own compiler is in no wheel: nothing is known beyond that.

What fails raises an error that names it. In interpret mode outputs start as NaN, and so does what a block reads beyond
its array, so that both show in the answer.

Covers: float32, bfloat16, float16, 8- and 32-bit integers, bool; int64 whose values fit 32 bits.
Does not cover: float64 (`Unsupported`); block specifications with `Element`, which are not checked; of outputs whose
index maps depend on data, which blocks are left out or revisited; memory limits of a TPU; races between cores, but
where the candidate asks for TPU interpret mode itself.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..config import Settings
from ..errors import MissingToolError
from ..records import Build, BuildStatus, Candidate, TensorSpec
from ._cache import cached_build
from ._package import imported
from ._pallas_grid import check_grid
from ._pallas_simulated import check_simulated, wants_simulation
from ._protocol import Availability, Kernel
from .torch import check_python, load_symbol

_LARGEST = 2**31 - 1


class Pallas:
    """Pallas candidates, for TPUs."""

    name = "pallas"
    targets = ("tpu",)
    """What the kernels are for."""
    executed = ("tpu",)
    """The targets whose kernels run here without the device."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    def available(self) -> Availability:
        """Report JAX's version."""
        version = _version()
        if version is None:
            return Availability(False, "no jax", "pip install 'kernelwright[pallas]'")
        return Availability(True, f"jax {version}, interpreted, lowered to Mosaic, not timed")

    def toolchain(self) -> str:
        """Name JAX's and torch's versions."""
        return f"jax {_version()}, torch {torch.__version__}"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:  # noqa: ARG002
        """Parse the file; grids and blocks are known only when it is called."""
        status = self.available()
        if not status.ok:
            return status.missing()
        return cached_build(self._settings.cache, candidate, self.toolchain(), lambda _: _checked(candidate))

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load the entry so that `pallas_call` interprets, and checks what it is given."""
        if _version() is None:
            raise MissingToolError("no jax; pip install 'kernelwright[pallas]'")
        imported("jax").config.update("jax_platforms", "cpu")
        interpreting = _Interpreting()
        return _Entry(load_symbol(candidate, artefact), interpreting, tuple(spec.dtype for spec in outputs))

    def timeable(self, device: str) -> bool:  # noqa: ARG002
        """Whether times are meaningful: never, as kernels are interpreted."""
        return False


def _checked(candidate: Candidate) -> Build:
    if candidate.style != "function":
        said = f"a Pallas kernel is called in style 'function', not {candidate.style!r}"
        return Build(status=BuildStatus.FAILED, diagnostics=said)
    return check_python(candidate, flags=())


class _Interpreting:
    """Stands where `pallas_call` was: checks grid and blocks and interprets, or lowers or simulates while told so."""

    def __init__(self) -> None:
        self.calls = 0
        """How often it was called."""
        self.lowering = False
        """Whether calls are kept as they are, for Mosaic."""
        self.simulating = False
        """Whether calls run on the simulated TPU."""
        pallas: Any = importlib.import_module("jax.experimental.pallas")
        self._real = getattr(pallas.pallas_call, "_real", pallas.pallas_call)
        self._tpu_interpreter = importlib.import_module("jax.experimental.pallas.tpu").InterpretParams
        pallas.pallas_call = self

    def __call__(self, kernel: Callable[..., None], *positional: Any, **options: Any) -> Callable[..., Any]:
        """Return what `pallas_call` returns."""
        asked = options.pop("interpret", False)
        kept = asked if isinstance(asked, self._tpu_interpreter) else True
        out_shape = positional[0] if positional else options["out_shape"]

        def call(*arguments: Any) -> Any:
            self.calls += 1
            if self.lowering:
                return self._real(kernel, *positional, **options)(*arguments)
            check_grid(options, arguments, out_shape, getattr(kernel, "__name__", "kernel"))
            if self.simulating:
                simulated = self._tpu_interpreter(detect_races=True)
                return self._real(kernel, *positional, interpret=simulated, **options)(*arguments)
            return self._real(kernel, *positional, interpret=kept, **options)(*arguments)

        return call


class _Entry:
    """The candidate's entry for tensors of torch."""

    def __init__(self, entry: Kernel, interpreting: _Interpreting, dtypes: tuple[str, ...]) -> None:
        self._entry, self._interpreting, self._dtypes = entry, interpreting, dtypes
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        tensors = [_to_jax(a) for a in arguments if isinstance(a, torch.Tensor)]
        key = tuple((a.shape, a.dtype) if isinstance(a, torch.Tensor) else (type(a), a) for a in arguments)
        if key not in self._compiled:
            self._compiled[key] = self._checked(arguments, tensors)
        answer = self._compiled[key](*tensors)
        if not isinstance(answer, tuple | list):
            return _to_torch(answer, self._dtypes[0])
        return tuple(_to_torch(a, dtype) for a, dtype in zip(answer, self._dtypes, strict=True))

    def _checked(self, arguments: tuple[Any, ...], tensors: list[Any]) -> Callable[..., Any]:
        """Return the entry for these arguments' shapes, traced, checked and lowered."""
        jax: Any = importlib.import_module("jax")

        others = [(i, a) for i, a in enumerate(arguments) if not isinstance(a, torch.Tensor)]

        def call(*given: Any) -> Any:
            whole = list(given)
            for i, other in others:
                whole.insert(i, other)
            return self._entry(*whole)

        self._lower(jax, call, tensors)
        before = self._interpreting.calls
        traced = jax.jit(call).trace(*tensors)
        compiled: Callable[..., Any] = traced.lower().compile()
        if self._interpreting.calls == before:
            raise RuntimeError("the entry called no pallas_call; a Pallas candidate computes in one")
        if wants_simulation(traced.jaxpr):
            self._simulate(jax, call, tensors, jax.tree.leaves(compiled(*tensors)))
        return compiled

    def _simulate(self, jax: Any, call: Callable[..., Any], tensors: list[Any], plain: list[Any]) -> None:
        """Run the call once on the simulated TPU, which raises what it finds."""
        self._interpreting.simulating = True
        jax.clear_caches()  # what was traced for the plain interpreter must not be run again
        try:
            check_simulated(call, tensors, plain)
        finally:
            self._interpreting.simulating = False
            jax.clear_caches()

    def _lower(self, jax: Any, call: Callable[..., Any], tensors: list[Any]) -> None:
        """Lower the call for a TPU, which raises where Mosaic cannot take it."""
        self._interpreting.lowering = True
        jax.clear_caches()  # what was traced interpreted must not be lowered
        try:
            jax.export.export(jax.jit(call), platforms=["tpu"])(*tensors)
        except Exception as error:  # the candidate's own code runs while it is traced, and may raise anything
            if str(error).startswith("Unsupported:"):
                raise
            said = " ".join(str(error).split())[:600]
            raise RuntimeError(f"it cannot be lowered for a TPU: {said}") from error
        finally:
            self._interpreting.lowering = False
            jax.clear_caches()


def _to_jax(tensor: torch.Tensor) -> Any:
    if tensor.dtype is torch.float64 or tensor.is_complex():
        raise NotImplementedError(f"Unsupported: {tensor.dtype} is not a type of TPUs")
    if tensor.dtype is torch.int64:
        if tensor.numel() and tensor.abs().max() > _LARGEST:
            raise NotImplementedError("Unsupported: an integer does not fit 32 bits")
        tensor = tensor.to(torch.int32)
    return importlib.import_module("jax.dlpack").from_dlpack(tensor.detach().contiguous().clone())


def _to_torch(array: Any, dtype: str) -> torch.Tensor:
    """Return a tensor of its own; 32-bit integers are widened where the task's are 64-bit."""
    made = torch.utils.dlpack.from_dlpack(array).clone()
    return made.long() if dtype == "int64" and made.dtype is torch.int32 else made


@functools.lru_cache
def _version() -> str | None:
    if importlib.util.find_spec("jax") is None:
        return None
    return importlib.metadata.version("jax")
