"""Graph of Dynamo → callable: `torch.compile(model, backend="kernelwright")`.

A graph that is an optimised model's own is served by its accepted program. In every other graph accepted kernels serve
the regions that they were verified on, and Inductor compiles the rest.

Covers: graphs by their computation, not by their name, at fixed and at dynamic sizes; several graphs where one breaks;
gradients, autocast and other layouts, which are Inductor's; weights that change; buffers outside the state dictionary,
whose contents are compared; kernels that decline; results that no longer hold, or were accepted with another version of
torch, a compiler or the processor's microcode and not rechecked since.
Does not cover: what `_dynamo_regions` does not; regions of a graph of dynamic sizes after the first few sizes.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx

from ..errors import InputError, KernelwrightError
from ..languages.prepared import Seen
from ..store import Store
from ._accepted import Program, RegionProgram, programs, region_programs
from ._dynamo_form import content, graph_key, is_plain, sized
from ._dynamo_regions import with_regions
from ._records import DynamoForm
from .pieces import Unprintable

_LOG = logging.getLogger(__name__)
_OPTIONS = ("store",)
_MOST_SIZES = 256
"""Sizes of a dynamic graph that are remembered; a text that grows by a token has one after another."""
_MOST_LOOKS = 8
"""Sizes at which regions are looked for in a dynamic graph, which costs a capture each."""
Call = Callable[..., Any]


def dynamo_backend(
    graph: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Call:
    """Compile a graph of Dynamo: by an accepted program where there is one, else by Inductor.

    It is registered as `kernelwright` in torch's entry points, so nothing need be imported.

    Args:
        graph: The graph.
        inputs: Its arguments in the call that made Dynamo compile.
        options: `store`: folder of the run store; by default the user's.

    Raises:
        InputError: an option is not known.

    Example:
        >>> callable(torch.compile(torch.nn.ReLU(), backend="kernelwright"))
        True
    """
    chosen = dict(options or {})
    if unknown := sorted(set(chosen) - set(_OPTIONS)):
        raise InputError(f"the backend has no option {unknown[0]!r}; it has {', '.join(_OPTIONS)}")
    accepted, regions = _accepted(chosen.get("store"))
    return served_by(graph, inputs, accepted, regions)


def served_by(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    accepted: Sequence[Program],
    regions: Sequence[RegionProgram],
) -> Call:
    """Compile a graph of Dynamo with these programs of whole models and these kernels of regions."""
    if torch.is_autocast_enabled("cpu") or _wants_gradient(inputs):
        return _inductor(graph, inputs)
    known = _Known(graph, accepted, regions)
    if all(isinstance(v, torch.Tensor) and all(type(s) is int for s in v.shape) for v in inputs):
        found = known.whole(inputs)
        if found is not None:
            return _Served(found, _lazily(graph))
        return _inductor(with_regions(graph, inputs, regions) or graph, inputs)
    native = _inductor(graph, inputs)
    return _BySizes(known, native) if regions or known.may_serve(inputs) else native


@dataclass(frozen=True)
class _Serving:
    """A program in place of a graph, by the places of the graph's arguments."""

    kernel: Call
    """Takes the model's inputs and then its weights."""
    places: tuple[int, ...]
    """Which argument of the graph each of those is; -1 for one that is not read."""
    spare: tuple[torch.Tensor, ...]
    """What stands for those, in order."""
    constants: tuple[int, ...]
    """Places of arguments that must be as they were verified."""
    verified: Seen
    """Those arguments as they were then."""
    results: tuple[int, ...]
    """Which tensor of the model each result of the graph is."""

    def __call__(self, arguments: Sequence[Any]) -> tuple[torch.Tensor, ...] | None:
        """Return the graph's results; None where the program declines."""
        if self.constants and self.verified.differ([arguments[place] for place in self.constants]):
            return None
        spare = iter(self.spare)
        try:
            made = self.kernel(*[arguments[p] if p >= 0 else next(spare) for p in self.places])
        except (NotImplementedError, RuntimeError) as error:
            if not str(error).startswith("Unsupported"):
                raise
            return None
        found = (made,) if isinstance(made, torch.Tensor) else made
        return tuple(found[i] for i in self.results)


class _Known:
    """The accepted programs, as far as they may serve a graph."""

    def __init__(
        self, graph: fx.GraphModule, accepted: Sequence[Program], regions: Sequence[RegionProgram] = ()
    ) -> None:
        self._graph, self._regions, self._looks = graph, regions, 0
        count = sum(n.op == "placeholder" for n in graph.graph.nodes)
        self._accepted = [a for a in accepted if len(a.form.tensors) <= count]

    def may_serve(self, inputs: Sequence[Any]) -> bool:
        """Tell whether a graph of dynamic sizes could be an optimised model's at some sizes."""
        given = sorted((v.dim(), str(v.dtype)) for v in inputs if isinstance(v, torch.Tensor))
        return any(
            _within(sorted((len(shape), dtype) for shape, dtype in a.form.tensors), given)
            for a in self._accepted
        )

    def serving(self, arguments: Sequence[Any]) -> Call | None:
        """Return what serves the graph at the sizes of these arguments: a program, or kernels of regions."""
        return self.whole(arguments) or self._in_parts(arguments)

    def whole(self, arguments: Sequence[Any]) -> _Serving | None:
        """Return the program for the graph at the sizes of these arguments, if there is one."""
        given = sorted(sized(v) for v in arguments if isinstance(v, torch.Tensor))
        likely = [a for a in self._accepted if _within(sorted(a.form.tensors), given)]
        if not likely:
            return None
        try:
            key = graph_key(self._graph, arguments)
        except Unprintable as error:
            _LOG.debug("no program serves the graph: %s", error)
            return None
        for one in likely:
            if one.form.graph == key.key:
                try:
                    return _serving(one, key.order, arguments)
                except (KernelwrightError, Unprintable) as error:
                    _LOG.warning("the program of %s is not used: %s", one.name, error)
        return None

    def _in_parts(self, arguments: Sequence[Any]) -> Call | None:
        """Return the graph at the sizes of these arguments with kernels of regions, if there are any."""
        self._looks += 1
        made = with_regions(self._graph, arguments, self._regions) if self._looks <= _MOST_LOOKS else None
        if made is None:
            return None
        compiled = _lazily(made)
        return lambda given: compiled(*given)


class _Served:
    """A graph of fixed sizes that a program serves; Dynamo's guards hold the sizes."""

    def __init__(self, serving: _Serving, native: Call) -> None:
        self._serving, self._native = serving, native

    def __call__(self, *arguments: Any) -> Any:
        found = None if torch.is_grad_enabled() and _wants_gradient(arguments) else self._serving(arguments)
        return self._native(*arguments) if found is None else found


class _BySizes:
    """A graph of dynamic sizes: a program where one was accepted for the sizes of a call, else Inductor's code."""

    def __init__(self, known: _Known, native: Call) -> None:
        self._known, self._native = known, native
        self._found: dict[tuple[Any, ...], Call | None] = {}

    def __call__(self, *arguments: Any) -> Any:
        if torch.is_grad_enabled() and _wants_gradient(arguments):
            return self._native(*arguments)
        sizes = tuple([
            (a.shape, a.stride(), a.dtype) if isinstance(a, torch.Tensor) else a for a in arguments
        ])  # fmt: skip
        if sizes in self._found:
            serving = self._found[sizes]
        else:
            while len(self._found) >= _MOST_SIZES:
                del self._found[self._oldest()]
            serving = self._found[sizes] = self._known.serving(arguments)
        found = None if serving is None else serving(arguments)
        return self._native(*arguments) if found is None else found

    def _oldest(self) -> tuple[Any, ...]:
        """Return the sizes to forget: the first seen that no program serves, else the first seen."""
        return next((s for s, serving in self._found.items() if serving is None), next(iter(self._found)))


def _serving(program: Program, order: Sequence[int], arguments: Sequence[Any]) -> _Serving:
    """Bind a program to the places of a graph's arguments.

    Raises:
        InputError: the program cannot be loaded here, or a buffer holds other values than it was verified with.
    """
    form: DynamoForm = program.form
    constants, verified = list[int](), Seen()
    for number, wanted in form.constants.items():
        value = arguments[order[number]]
        if isinstance(value, torch._subclasses.FakeTensor) or content(value) != wanted:
            raise InputError("a buffer outside the state dictionary has other values than those verified")
        if value.is_inference():
            raise InputError("a buffer was made in inference mode, so that changes of it cannot be seen")
        constants.append(order[number])
    if not all(is_plain(arguments[place]) for place in order):
        raise InputError("an argument is not dense and contiguous")
    verified.look([arguments[place] for place in constants])
    numbers = (*form.inputs, *form.weights)
    places = tuple(-1 if n < 0 else order[n] for n in numbers)
    loaded = program.load()
    specs = (*loaded.inputs, *loaded.weights)
    spare = tuple(
        torch.zeros(s.shape, dtype=getattr(torch, s.dtype))
        for s, p in zip(specs, places, strict=True)
        if p < 0
    )
    return _Serving(loaded.kernel, places, spare, tuple(constants), verified, form.results)


def _accepted(store: Path | str | None) -> tuple[tuple[Program, ...], tuple[RegionProgram, ...]]:
    try:
        with Store(store) as kept:
            return tuple(programs(kept)), tuple(region_programs(kept))
    except (KernelwrightError, OSError) as error:
        _LOG.warning("the store cannot be read, so Inductor compiles everything: %s", error)
        return (), ()


def _inductor(graph: fx.GraphModule, inputs: Sequence[Any]) -> Call:
    call: Call = torch._dynamo.lookup_backend("inductor")(graph, list(inputs))
    return call


def _lazily(graph: fx.GraphModule) -> Call:
    """Return the graph as Inductor compiles it once it is called: a program serves it, and seldom declines."""
    return torch.compile(graph, backend="inductor", dynamic=False)


def _wants_gradient(values: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)


def _within(few: Sequence[Any], many: Sequence[Any]) -> bool:
    """Tell whether each of the few is among the many, both sorted, each as often.

    Example:
        >>> _within([1, 1, 3], [1, 1, 2, 3]), _within([1, 1], [1, 2])
        (True, False)
    """
    rest = iter(many)
    return all(any(one == other for other in rest) for one in few)
