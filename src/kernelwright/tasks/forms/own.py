"""The `@kw.task` form: a plain function whose arguments are declared over symbolic axes.

    @kw.task(
        x="float32[rows, dim]",
        weight="float32[dim]",
        workloads=[{"rows": 2048, "dim": 1024}, {"rows": 16, "dim": 8192}],
    )
    def rmsnorm(x, weight, eps: float = 1e-6):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight

An argument is declared as `dtype[sizes] words`. Sizes are arithmetic over axes. Words are a layout
(`transposed`, `strided`) and a distribution: `normal(scale)`, `uniform(low, high)`, `integers(low, high)`,
`index(n)`, `bernoulli(p)`, `constant(v)`, `sorted(low, high)`, `offsets(high)`,
`permutation`, `probabilities`, `triangular(scale)`. Floats are normal by default. Arguments not declared keep their
defaults, or are given workload by workload, as are dtypes: `x="dtype[rows]"` with `{"rows": 8, "dtype": "bfloat16"}`.
"""

import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import torch

from ...errors import TaskError
from ...records import Contract, Reference, Scalar, ScalarSpec, SourceFile, Split, Task, TensorSpec, Workload
from ..inputs._draw import draw, elements_of, generator
from ..inputs.regimes import REGIMES, SPECIAL, without_infinity
from ..workloads._free_sizes import left_free
from ..workloads._shrink import fit_axes
from ..workloads.splits import Plan, derive
from ._expression import declared
from ._local_imports import local_imports
from ._shape_probe import CHEAPER_REAL, called, output_specs
from ._source import run_source

P = ParamSpec("P")
R = TypeVar("R")
Sizes = Mapping[str, int | float | str | bool]
"""One workload: a value for each axis, and for scalars and dtypes that differ between workloads."""
_MARK = "__kernelwright_task__"
_MOST_REAL = 1 << 24


@dataclass(frozen=True)
class Declaration:
    """The arguments of `@kw.task`."""

    arguments: Mapping[str, str]
    workloads: tuple[Sizes, ...]
    contract: Contract
    hidden: tuple[Sizes, ...] | None
    confirm: tuple[Sizes, ...] | None
    fixed: tuple[str, ...]
    regimes: tuple[str, ...]


def task(
    *,
    workloads: Sequence[Sizes],
    contract: Contract | None = None,
    hidden: Sequence[Sizes] | None = None,
    confirm: Sequence[Sizes] | None = None,
    fixed: Sequence[str] = (),
    regimes: Sequence[str] | None = None,
    no_infinity: Sequence[str] = (),
    backward: bool = False,
    **arguments: str,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function to be a task; the function itself is unchanged.

    Args:
        workloads: one mapping of axes to sizes for each search workload.
        contract: the contract for kernels; the default contract if none.
        hidden: sizes of the hidden workloads, which may be 0; derived if none, `[]` forbids them.
        confirm: sizes of the confirm workloads in addition to the search ones; derived if none.
        fixed: axes that hidden and confirm workloads must not change.
        regimes: value regimes that may be applied (`tasks.regimes`); all that the reference accepts if none.
        no_infinity: arguments in which special values are NaN alone, such as scales: an infinite factor gives
            another answer in each order of products and sums, NaN the same.
        backward: the task is forward and backward together, the gradients of the outputs given.
        **arguments: a declaration for each tensor, `dtype[sizes] words` (module docstring).

    Raises:
        TaskError: no workloads, an unknown regime, or no such argument.

    Example:
        >>> import kernelwright as kw
        >>> @kw.task(x="float32[rows, dim]", workloads=[{"rows": 4, "dim": 8}])
        ... def double(x):
        ...     return x * 2
        >>> double(21)
        42
    """
    if not workloads:
        raise TaskError("@kw.task was given no workloads; expected at least one, such as [{'rows': 1024}]")
    unknown = [r for r in regimes or () if r not in REGIMES]
    if unknown:
        raise TaskError(f"@kw.task: regime {unknown[0]!r} is unknown; expected some of {', '.join(REGIMES)}")
    declaration = Declaration(
        arguments=arguments, workloads=tuple(workloads), contract=_asked(contract or Contract(), backward),
        hidden=None if hidden is None else tuple(hidden), confirm=None if confirm is None else tuple(confirm),
        fixed=tuple(fixed), regimes=_regimes(REGIMES if regimes is None else regimes, arguments, no_infinity),
    )  # fmt: skip

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        setattr(function, _MARK, declaration)
        return function

    return mark


def _regimes(
    regimes: Iterable[str], arguments: Collection[str], no_infinity: Sequence[str]
) -> tuple[str, ...]:
    """Return the regimes, special values without infinities in some arguments."""
    if unknown := [name for name in no_infinity if name not in arguments]:
        expected = f"expected some of {', '.join(arguments)}"
        raise TaskError(f"@kw.task: no argument is called {unknown[0]!r}, as no_infinity has it; {expected}")
    special = without_infinity(SPECIAL, no_infinity) if no_infinity else SPECIAL
    return tuple(special if regime == SPECIAL else regime for regime in regimes)


def tasks_in(module: ModuleType) -> list[str]:
    """Name the functions of the module that are under `@kw.task`."""
    return [n for n, v in vars(module).items() if hasattr(v, _MARK) and v.__module__ == module.__name__]


def load(
    path: Path,
    text: str,
    symbol: str,
    *,
    max_elements: int | None = None,
    contract: Contract | None = None,
    fixed: Sequence[str] = (),
    backward: bool = False,
) -> Task:
    """Make a task of the function `symbol` in the file."""
    local_files = local_imports(path, text)
    function = getattr(run_source(text, str(path), local_files), symbol, None)
    declaration = getattr(function, _MARK, None)
    if function is None or not isinstance(declaration, Declaration):
        raise TaskError(f"{path} has no function {symbol!r} under @kw.task")
    maker = _Maker(function, declaration)
    if any(a == b for a, b in itertools.combinations(declaration.workloads, 2)):
        raise TaskError(f"{path}:{symbol}: two workloads are the same; expected each to differ")
    fitted = [maker.search(sizes, max_elements) for sizes in declaration.workloads]
    searches = {workload.name: workload for workload, _ in fitted}  # shrinking may make two alike
    loaded = Task(
        name=symbol,
        form="own",
        reference=Reference(
            files=(SourceFile(path=path.name, text=text), *local_files), entry=f"{path.name}:{symbol}",
            style="function", origin=str(path),
        ),
        workloads=tuple(searches.values()),
        contract=_asked(contract or declaration.contract, backward),
        notes=tuple(dict.fromkeys(note for _, notes in fitted for note in notes)),
    )  # fmt: skip
    plan = maker.plan()
    return derive(
        loaded, replace(plan, free=left_free(plan.free, (*declaration.fixed, *fixed), f"{path}:{symbol}"))
    )


class Live:
    """A function is the same on every workload."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def reference(self, workload: Workload) -> Reference:  # noqa: ARG002  the same for all
        """Return the file unchanged."""
        return self._task.reference

    def init_arguments(self, workload: Workload) -> tuple[Any, ...]:  # noqa: ARG002
        """Return nothing: a function has no constructor."""
        return ()

    def given(self, workload: Workload, seed: int) -> list[Any]:  # noqa: ARG002
        """Raise: every argument of this form is declared."""
        raise TaskError(f"{self._task.name}: the own form declares every argument; none can be 'given'")

    def at(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Return the declaration at these sizes, scalars and dtypes as the workload has them."""
        return self._maker.like(workload, workload.axes | dict(axes))

    @cached_property
    def _maker(self) -> "_Maker":
        file, *local_files = self._task.reference.files
        module = run_source(file.text, self._task.reference.origin, tuple(local_files))
        function = getattr(module, self._task.reference.entry.split(":")[1])
        return _Maker(function, getattr(function, _MARK))


class _Maker:
    """Instantiates workloads of one declared function."""

    def __init__(self, function: Callable[..., Any], declaration: Declaration) -> None:
        self._function, self._declaration = function, declaration
        self._parameters = inspect.signature(function).parameters
        stray = [n for n in declaration.arguments if n not in self._parameters]
        if stray:
            raise TaskError(
                f"@kw.task declares {stray[0]!r}, which {function.__name__}() does not take; "
                f"it takes {', '.join(self._parameters)}"
            )

    def search(self, sizes: Sizes, most: int | None) -> tuple[Workload, tuple[str, ...]]:
        """Instantiate a declared workload, with its axes shrunk to `most` elements if need be."""
        axes = {k: int(sizes[k]) for k in self._axes(sizes)}
        rest = {k: v for k, v in sizes.items() if k not in axes}
        return fit_axes(lambda changed: self._timed(rest | changed), axes, most)

    def plan(self) -> Plan:
        """Return the plan for other workloads."""
        declaration, base = self._declaration, self._declaration.workloads[0]
        free = tuple((n,) for n in self._axes(base))
        extra = {k: v for k, v in base.items() if k not in self._axes(base)}
        for sizes in declaration.confirm or ():
            self._timed(extra | dict(sizes))
        return Plan(
            make=lambda axes: self.make(extra | dict(axes)), free=free, regimes=declaration.regimes,
            hidden=declaration.hidden, confirm=declaration.confirm, pin=lambda sizes: self.make(extra | dict(sizes)),
            least=lambda axes: elements_of(self._arguments(extra | dict(axes))),
        )  # fmt: skip

    def make(self, sizes: Sizes) -> Workload:
        """Instantiate a workload of these sizes; the outputs come from a meta or a small real run."""
        arguments = self._arguments(sizes)
        return Workload(
            name=",".join(f"{k}={v}" for k, v in sizes.items()),
            split=Split.SEARCH,
            axes={k: sizes[k] for k in self._axes(sizes)},
            arguments=arguments,
            outputs=self._outputs(arguments),
        )

    def like(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Instantiate sizes with the scalars and dtypes of another workload."""
        declared = self._declaration
        pinned = (*(declared.hidden or ()), *(declared.confirm or ()))
        first = {k: v for k, v in declared.workloads[0].items() if k not in self._axes(declared.workloads[0])}
        for sizes in (*declared.workloads, *(first | dict(one) for one in pinned)):
            rest = {k: v for k, v in sizes.items() if k not in self._axes(sizes)}
            try:
                same = self.make(rest | workload.axes).arguments == workload.forward.arguments
            except TaskError:
                continue
            if same:
                return self.make(rest | dict(axes))
        raise TaskError(f"{self._function.__name__}(): no declared workload is like {workload.name!r}")

    def _timed(self, sizes: Sizes) -> Workload:
        """Instantiate a workload that is timed, so that there must be something to do."""
        workload = self.make(sizes)
        for spec in workload.arguments:
            if isinstance(spec, TensorSpec) and 0 in spec.shape:
                raise TaskError(
                    f"@kw.task: {spec.name!r} is empty in the timed workload {workload.name}; "
                    "expected sizes of at least 1, or the workload in `hidden`"
                )
        return workload

    def _axes(self, sizes: Sizes) -> list[str]:
        whole = [k for k, v in sizes.items() if isinstance(v, int) and not isinstance(v, bool)]
        return [k for k in whole if k not in self._parameters]

    def _arguments(self, sizes: Sizes) -> tuple[TensorSpec | ScalarSpec, ...]:
        names = {k: v for k, v in sizes.items() if isinstance(v, int | str) and not isinstance(v, bool)}
        return tuple(self._argument(name, names, sizes) for name in self._parameters)

    def _argument(self, name: str, names: Mapping[str, int | str], sizes: Sizes) -> TensorSpec | ScalarSpec:
        if name in self._declaration.arguments:
            return declared(name, self._declaration.arguments[name], names)
        value = sizes.get(name, self._parameters[name].default)
        if value is inspect.Parameter.empty:
            raise TaskError(
                f"{self._function.__name__}() takes {name!r}, which is neither declared in @kw.task, nor in "
                "the workload, nor has a default"
            )
        if not isinstance(value, Scalar | tuple):
            raise TaskError(
                f"argument {name!r} defaults to a {type(value).__name__}; expected a number or text"
            )
        return ScalarSpec(name=name, value=value)

    def _outputs(self, arguments: tuple[TensorSpec | ScalarSpec, ...]) -> tuple[TensorSpec, ...]:
        what, elements = f"{self._function.__name__}()", elements_of(arguments)
        small = elements <= CHEAPER_REAL
        try:
            return self._run(arguments, what, real=small)
        except TaskError:
            if elements > _MOST_REAL:
                raise
            return self._run(arguments, what, real=not small)

    def _run(
        self, arguments: Sequence[TensorSpec | ScalarSpec], what: str, *, real: bool
    ) -> tuple[TensorSpec, ...]:
        values = [
            s.value if isinstance(s, ScalarSpec) else draw(s, generator(0, s.name)) if real else _meta(s)
            for s in arguments
        ]  # fmt: skip
        with torch.no_grad():
            return output_specs(called(self._function, what, *values))


def _asked(contract: Contract, backward: bool) -> Contract:
    return contract.model_copy(update={"backward": True}) if backward else contract


def _meta(spec: TensorSpec) -> torch.Tensor:
    return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
