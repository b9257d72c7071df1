"""A `@triton.jit` function → PTX by Triton's compiler → an execution. No GPU is needed.

    run = run_triton(add_kernel, grid=lambda meta: (triton.cdiv(n, meta["BLOCK"]),),
                     arguments=(x, y, out, n), constants={"BLOCK": 1024})

Types and specialisations (divisible by 16, equal to 1) are those that Triton's own launcher gives.

Covers: jitted functions with tensors, numbers and constants, called by position or name, any grid.
Tensor descriptors of the host (`TensorDescriptor`) are copied by TMA, so `target` must be 90 for them.

Does not cover: of an autotuner, all but the configuration of the smallest blocks.
"""

import contextlib
import functools
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ..errors import InputError, MissingToolError
from ..languages._autotuned import untimed
from ..languages._triton_compile import source_class
from ._blockpointer import block_pointers
from ._errors import NotExecutedError
from ._im2col import Im2colMap
from ._memory import Uninitialised
from ._tensormap import TensorMap
from .module import Module, Options
from .results import Counters, Execution

_TYPES: Final = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
_SWIZZLES: Final = {0: 0, 1: 32, 2: 64, 3: 128}
Grid = Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]
Launched = Callable[[Callable[[Sequence[Any]], Execution], Sequence[Any]], Execution]
"""Executes a launch, given what does so on arguments, and the arguments."""


@dataclass(frozen=True)
class Compiled:
    """A jitted function for some types and constants."""

    ptx: str
    name: str
    shared_bytes: int
    threads: int
    scratch_bytes: int
    kept: tuple[int, ...]
    """Positions of the arguments that the PTX takes; the others are constants in it."""
    maps: tuple[tuple[int, tuple[int, ...]], ...]
    """Of each tensor descriptor the bytes of its swizzle and the box that it copies at once."""
    blocks: int
    """Of each program: a cluster where there are several (`num_ctas`)."""
    module: Module


def run_triton(function: Any, grid: Grid, arguments: Sequence[Any], constants: Mapping[str, Any] | None = None, *,
               target: int = 80, options: Options | None = None, **settings: Any) -> Execution:  # fmt: skip
    """Compile a jitted function for the arguments' types and execute it over a grid.

    Args:
        function: What `@triton.jit` made.
        grid: Programs in each dimension, or a function of the constants and arguments by name; none where one is 0, as
            by Triton's own launcher.
        arguments: Tensors, arrays, `Uninitialised` outputs, numbers, in the order of the parameters.
        constants: `tl.constexpr` parameters by name.
        target: Compute capability, 80 for sm_80.
        options: How it is executed.
        settings: `num_warps`, `num_stages` and other options of Triton's compiler.

    Raises:
        InputError: where the function cannot be compiled for these arguments.
    """
    arguments = [operator.index(a) if type(a).__name__ == "SymInt" else a for a in arguments]
    compiled = compile_triton(function, arguments, constants, target=target, **settings)
    free = [n for n in _names(function) if n not in (constants or {})]
    plain = [a.array if isinstance(a, Uninitialised) else a for a in arguments]
    meta = {**dict(zip(free, plain, strict=False)), **(constants or {})}
    shape = tuple(
        map(operator.index, grid(meta) if callable(grid) else grid)
    )  # torch has integers of its own
    if 0 in shape:
        return Execution(
            "ok", (), Counters(), 0, 0.0, ("an empty grid: nothing was launched",), compiled.name
        )
    maps = iter(compiled.maps)
    given = [
        v
        for n in compiled.kept
        for v in (_mapped(arguments[n], maps) if _is_map(arguments[n]) else [_plain(arguments[n])])
    ]
    shape = (shape[0] * compiled.blocks, *shape[1:])
    scratch = (
        np.zeros(compiled.scratch_bytes * int(np.prod(shape)), np.uint8) if compiled.scratch_bytes else None
    )
    kernel = compiled.module[compiled.name]
    given += [scratch, None][: len(kernel.parameters) - len(given)]
    return kernel(shape, compiled.threads, given, shared_bytes=compiled.shared_bytes, options=options)


def _launched(execute: Callable[[Sequence[Any]], Execution], arguments: Sequence[Any]) -> Execution:
    return execute(arguments)


@contextlib.contextmanager
def executing(
    *, target: int = 80, options: Options | None = None, launched: Launched = _launched
) -> Iterator[list[Execution]]:
    """Have every launch `kernel[grid](...)` of a jitted function executed here, on tensors of the CPU.

    Programs that launch Triton kernels then run unchanged, but for where their tensors lie. Yields the list that
    every launch is added to. Holds for the whole process, so for one thread at a time. `launched` may change the
    arguments of each launch, or watch it.

    Raises:
        MissingToolError: where there is no Triton.
    """
    try:
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction
    except ImportError:
        raise MissingToolError("no triton; install it: `pip install triton`") from None
    runs: list[Execution] = []

    def run(self: Any, *arguments: Any, grid: Grid, warmup: bool = False, **named: Any) -> None:
        if warmup:
            return
        names = _names(self)
        given = {
            **dict(zip(names, arguments, strict=False)),
            **{n: v for n, v in named.items() if n in names},
        }
        settings = {n: v for n, v in named.items() if n not in names}
        constants = {p.name: given[p.name] for p in self.params if p.is_constexpr and p.name in given}
        values = [given.get(p.name, p.default) for p in self.params if p.name not in constants]
        execute = functools.partial(
            run_triton, self, grid, constants=constants, target=target, options=options
        )
        made = launched(functools.partial(execute, **settings), values)
        runs.extend([made] if made.counters.blocks else [])

    before, tuned_before = JITFunction.run, Autotuner.run
    JITFunction.run, Autotuner.run = run, untimed(tuned_before)
    try:
        yield runs
    finally:
        JITFunction.run, Autotuner.run = before, tuned_before


def compile_triton(function: Any, arguments: Sequence[Any], constants: Mapping[str, Any] | None = None, *,
                   target: int = 80, **settings: Any) -> Compiled:  # fmt: skip
    """Return the PTX of a jitted function for the arguments' types; see `run_triton`."""
    try:
        from triton.runtime.jit import JITFunction
    except ImportError:
        raise MissingToolError("no triton; install it: `pip install triton`") from None
    if not isinstance(function, JITFunction):
        raise InputError(f"{function!r} is no function of @triton.jit (TRITON_INTERPRET must not be set)")
    names, fixed = _names(function), dict(constants or {})
    free = [n for n in names if n not in fixed]
    if len(arguments) > len(free):
        raise InputError(f"{len(arguments)} arguments for the parameters {free}")
    signature: list[tuple[str, str, bool]] = []
    kept = []
    by_position = dict(zip(free, arguments, strict=False))
    for parameter in function.params:
        kind, value, divisible = _typed(parameter, by_position, fixed)
        if kind == "constexpr":
            fixed[parameter.name] = value
        elif parameter.name in by_position:
            kept.append(free.index(parameter.name))
        signature.append((parameter.name, kind, divisible))
    compiled = _compile(function, tuple(signature), _frozen(fixed), target, tuple(sorted(settings.items())))
    return replace(compiled, kept=tuple(kept))


def _names(function: Any) -> list[str]:
    return [p.name for p in function.params]


def _frozen(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    try:
        hash(frozen := tuple(sorted(values.items())))
    except TypeError:
        raise InputError(f"constants must be hashable: {dict(values)!r}") from None
    return frozen


def _typed(parameter: Any, given: Mapping[str, Any], fixed: Mapping[str, Any]) -> tuple[str, Any, bool]:
    """Return Triton's type of an argument, its value if constant, whether it is a multiple of 16."""
    name = parameter.name
    if name in fixed or parameter.is_constexpr:
        return "constexpr", fixed[name] if name in fixed else given.get(name, parameter.default), False
    if name not in given and not parameter.has_default:
        raise InputError(f"no argument for the parameter {name!r}")
    value = given.get(name, parameter.default)
    value = value.array if isinstance(value, Uninitialised) else value
    if value is None:
        return "constexpr", None, False
    if isinstance(value, bool):
        return "i1", None, False
    if isinstance(value, int):
        special = not parameter.do_not_specialize
        if value == 1 and special:
            return "constexpr", 1, False
        kind = "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if value < 1 << 63 else "u64"
        return kind, None, special and value % 16 == 0
    if isinstance(value, float):
        return "fp32", None, False
    if isinstance(value, np.ndarray):
        return f"*{_dtype(str(value.dtype))}", None, value.__array_interface__["data"][0] % 16 == 0
    if _is_map(value):
        kind = _dtype(str(value.base.dtype).removeprefix("torch."))
        layout = f",{value.layout!r}" if hasattr(value, "layout") else ""
        if _is_im2col(value):
            how = f"tensordesc_im2col<{kind}{list(value.block_shape)},input_rank={len(value.shape)}{layout}>"
            return how, None, False
        return f"tensordesc<{kind}{list(value.block_shape)}{layout}>", None, False
    if hasattr(value, "data_ptr"):
        return f"*{_dtype(str(value.dtype).removeprefix('torch.'))}", None, value.data_ptr() % 16 == 0
    raise InputError(f"{name} is {value!r}; expected a tensor, a number or None")


def _is_map(value: Any) -> bool:
    return type(value).__name__.startswith("TensorDescriptor") and hasattr(value, "block_shape")


def _is_im2col(value: Any) -> bool:
    return hasattr(value, "pixel_box_lower_corner")


def _mapped(value: Any, maps: Iterator[tuple[int, tuple[int, ...]]]) -> list[Any]:
    """Return what the PTX takes for a tensor descriptor: the map, its sizes and its strides."""
    swizzle, box = next(maps)
    view = value.base.as_strided(tuple(value.shape), tuple(value.strides))
    fill = "nan" if value.padding == "nan" else "zero"
    if getattr(value, "round_f32_to_tf32", False):
        raise NotExecutedError("not executed: a tensor descriptor that rounds to tf32")
    return [_map_of(value, view, box, swizzle, fill), *value.shape, *value.strides]


def _map_of(value: Any, view: Any, box: tuple[int, ...], swizzle: int, fill: str) -> TensorMap:
    if not _is_im2col(value):
        return TensorMap(view, box, swizzle, fill)
    steps = value.element_strides or [1] * view.dim()
    if steps[0] != 1:
        raise NotExecutedError("not executed: a tensor descriptor that skips images")
    lower, upper = value.pixel_box_lower_corner, value.pixel_box_upper_corner
    return Im2colMap(view, box, swizzle, fill, lower=lower, upper=upper, steps=steps[1:-1])


def _plain(value: Any) -> Any:
    """Return the tensor that `triton.reinterpret` gave another type; anything else as it is."""
    return value.base if type(value).__name__ == "TensorWrapper" else value


def _dtype(name: str) -> str:
    if name in _TYPES.values():  # as `triton.reinterpret` has them
        return name
    if name not in _TYPES:
        raise InputError(f"tensors of {name} are not known; expected {', '.join(_TYPES)}")
    return _TYPES[name]


@functools.lru_cache(maxsize=256)
def _compile(function: Any, signature: tuple[tuple[str, str, bool], ...], constants: tuple[tuple[str, Any], ...],
             target: int, settings: tuple[tuple[str, Any], ...]) -> Compiled:  # fmt: skip
    import triton
    from triton.backends.compiler import GPUTarget

    source = source_class(function)(
        function,
        {name: kind for name, kind, _ in signature},
        constexprs=dict(constants),
        attrs={(n,): [["tt.divisibility", 16]] for n, (_, _, divisible) in enumerate(signature) if divisible},
    )
    try:
        with block_pointers(), warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="TRITON_DEFAULT_FP_FUSION"
            )  # its default of today is meant
            made = triton.compile(source, target=GPUTarget("cuda", target, 32), options=dict(settings))
    except Exception as error:  # noqa: BLE001  (Triton raises whatever its passes raise; the kernel is at fault)
        raise InputError(f"Triton does not compile {function.__name__!r}: {error}") from None
    facts = made.metadata
    described = [kind for _, kind, _ in signature if kind.startswith("tensordesc")]
    maps = tuple(
        (_SWIZZLES[m["swizzle"]], tuple(m["block_size"]))
        for m in getattr(facts, "tensordesc_meta", None) or ()
    )
    if len(maps) != len(described):
        raise InputError(f"tensor descriptors for compute capability {target}; they need target=90")
    return Compiled(
        made.asm["ptx"], facts.name, int(facts.shared), int(facts.num_warps) * 32,
        int(getattr(facts, "global_scratch_size", 0)), (), maps, int(facts.num_ctas),
        Module.load(made.asm["ptx"], assembled=True),
    )  # fmt: skip
