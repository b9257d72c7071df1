"""Model, regions with kernels → kernels in the place of whole submodules; the code around them runs as it is.

Dynamo looks at all that a model reads in each call, which costs as much as kernels gain where a call takes some
milliseconds. A submodule that is one region from end to end needs none of it: what it computes is known by its inputs,
its weights and its attributes, and those are compared in each call.

Covers: submodules that take tensors by position and return one, whose code reads nothing but these and their own parts.
Does not cover: code that writes attributes, reads globals that are no part of torch, or has hooks; such a submodule is
left as it is.
"""

import dis
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from ._form import operator_of
from ._graph import captured_program
from ._serve import Region, Site, has_strides, native_of, part_of

_WRITES = frozenset({
    "STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_SUBSCR",
    "IMPORT_NAME", "YIELD_VALUE",
})  # fmt: skip
_HOLDS = (bool, int, float, str, type(None), torch.dtype, torch.Size, torch.device)
_SPECIAL = frozenset(vars(nn.Module())) | {"forward"}
"""What every module has among its attributes."""
_OWN = ("__call__", "__getattr__", "__getattribute__", "__setattr__")


class Submodules:
    """Kernels in the place of submodules of one model.

    A submodule is looked at when it is first called, as its inputs are not known before.
    """

    def __init__(self, model: nn.Module, regions: Sequence[Region]) -> None:
        """Put a look at every submodule that may be a region from end to end, the outermost first."""
        self._regions = sorted(regions, key=lambda r: -len(r.form.operators))
        self._wanted = [Counter((tuple(s), d) for _, s, d in r.arguments) for r in self._regions]
        self.served: set[int] = set()
        """Numbers of regions that serve a submodule."""
        self.looks = True
        self._places: list[nn.Module] = []
        for module in model.modules():
            held = _sized(t for _, t in _state(module))
            if (
                "forward" not in vars(module)
                and any(held <= wanted for wanted in self._wanted)
                and _is_pure(module)
            ):
                module.forward = _Place(module, self)
                self._places.append(module)

    @property
    def whole(self) -> bool:
        """Whether every region serves a submodule."""
        return len(self.served) == len(self._regions)

    def remove(self) -> None:
        """Leave the model as it was."""
        for module in self._places:
            del module.forward

    def site(self, module: nn.Module, given: Sequence[torch.Tensor]) -> "tuple[Site, list[int]] | None":
        """Return what serves a submodule, and the places of what it reads among inputs and weights; None if nothing."""
        state = _state(module)
        tensors = [*given, *(tensor for _, tensor in state)]
        sizes = _sized(tensors)
        numbers = [n for n, wanted in enumerate(self._wanted) if wanted == sizes]
        if not numbers:
            return None
        whole = _Around(module, len(given), [name for name, _ in state])
        capture = captured_program("submodule", whole, tensors)
        live = [n for n in capture.nodes if n.name not in capture.folded]
        if capture.mutations or capture.constants or not live or any(map(has_strides, live)):
            return None
        found = part_of(capture, live[0], live[-1])
        if found is None or found[0].outputs != capture.outputs or len(capture.outputs) != 1:
            return None
        part, form = found
        for number in numbers:
            region = self._regions[number]
            if form.key == region.form.key and list(region.form.operators) == list(map(operator_of, live)):
                site = Site(region, native_of(live, form.sources, part.outputs))
                self.served.add(number)
                return site, [capture.inputs.index(name) for name in form.sources]
        return None


class _Place:
    """The forward of a submodule: a kernel where one serves, and its own code."""

    def __init__(self, module: nn.Module, among: Submodules) -> None:
        self._among, self._forward = among, module.forward
        self._module = module
        self._looked = False
        self._site: Site | None = None
        self._order: list[Callable[[Sequence[torch.Tensor]], torch.Tensor]] = []
        self._kept: list[tuple[nn.Module, dict[str, Any], dict[str, Any], dict[str, Any]]] = []

    def __call__(self, *given: Any, **named: Any) -> Any:
        if not self._among.looks or named or torch.is_autocast_enabled("cpu") or torch.is_grad_enabled():
            return self._forward(*given, **named)
        if not self._looked and all(type(one) is torch.Tensor for one in given):
            self._look(given)
        if self._site is None or not self._same():
            return self._forward(*given)
        try:
            tensors = [read(given) for read in self._order]
        except IndexError:
            return self._forward(*given)
        return self._site(*tensors)[0]

    def _look(self, given: Sequence[torch.Tensor]) -> None:
        """Look once whether a kernel serves here."""
        self._looked, self._among.looks = True, False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the exporter's own
                found = self._among.site(self._module, given)
        except Exception:  # noqa: BLE001  the model's own code runs under the exporter: the submodule stays as it is
            found = None
        finally:
            self._among.looks = True
        if found is None:
            return
        self._site, order = found
        readers = [*(_argument(n) for n in range(len(given))), *(_held(*at) for at in _places(self._module))]
        self._order = [readers[n] for n in order]
        self._kept = [
            (m, vars(m), {k: v for k, v in vars(m).items() if k != "_backward_hooks"}, dict(m._modules))
            for m in self._module.modules()
        ]

    def _same(self) -> bool:
        """Tell whether the submodule and its parts are as they were when they were looked at."""
        for module, now, kept, parts in self._kept:
            if len(now) != len(kept) + 1 or module._modules != parts or _is_hooked(module):
                return False
            for name, value in kept.items():
                if now.get(name, self) is not value:
                    return False
        return True


class _Around(nn.Module):
    """A submodule as a function of its inputs and its weights."""

    def __init__(self, module: nn.Module, inputs: int, names: Sequence[str]) -> None:
        super().__init__()
        self._call = [module]  # not a part: its weights are arguments
        self._count, self._names = inputs, names

    def forward(self, *tensors: torch.Tensor) -> Any:
        state = dict(zip(self._names, tensors[self._count :], strict=True))
        return functional_call(self._call[0], state, tensors[: self._count])


def _argument(number: int) -> Callable[[Sequence[torch.Tensor]], torch.Tensor]:
    return lambda given: given[number]


def _held(owner: dict[str, Any], name: str) -> Callable[[Sequence[torch.Tensor]], torch.Tensor]:
    return lambda _: owner[name]


def _state(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return the weights of a module by name, each once."""
    return [*module.named_parameters(), *module.named_buffers()]


def _places(module: nn.Module) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the dictionary and the name of each weight, in the order of `_state`."""
    for path, _ in _state(module):
        owner, _, name = path.rpartition(".")
        part = module.get_submodule(owner)
        yield (part._parameters if name in part._parameters else part._buffers), name


def _sized(tensors: Any) -> Counter[tuple[tuple[int, ...], str]]:
    return Counter((tuple(t.shape), str(t.dtype).removeprefix("torch.")) for t in tensors)


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _is_pure(module: nn.Module) -> bool:
    """Tell whether what a module computes is known by its inputs, its weights and its attributes."""
    return all(not _is_hooked(part) and _is_pure_part(part) for part in module.modules())


def _is_pure_part(part: nn.Module) -> bool:
    kind = type(part)
    if kind.__module__.startswith("torch.nn.modules."):
        return True
    own = [
        c
        for c in kind.__mro__
        if issubclass(c, nn.Module) and not c.__module__.startswith("torch.nn.modules.")
    ]
    if any(name in vars(c) for c in own for name in _OWN):
        return False
    held = (v for k, v in vars(part).items() if k not in _SPECIAL)
    if not all(
        isinstance(v, _HOLDS) or (isinstance(v, tuple) and all(isinstance(x, _HOLDS) for x in v))
        for v in held
    ):
        return False
    forward = kind.forward
    return isinstance(forward, FunctionType) and _reads_own_parts(kind, forward, set())


def _reads_own_parts(kind: type, function: FunctionType, seen: set[str]) -> bool:
    """Tell whether a method, and those of its class that it may call, write nothing and read no globals but torch's."""
    for code in _codes(function.__code__):
        for step in dis.get_instructions(code):
            if step.opname in _WRITES or (
                step.opname == "LOAD_DEREF" and step.argval not in ("self", "__class__")
            ):
                return False
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and not _is_fixed(
                function.__globals__, step.argval
            ):
                return False
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval not in seen:
                seen.add(step.argval)
                found = getattr(kind, step.argval, None)
                if found is None or getattr(nn.Module, step.argval, None) is found:
                    continue
                if not isinstance(found, FunctionType) or not _reads_own_parts(kind, found, seen):
                    return False
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _is_fixed(names: dict[str, Any], name: str) -> bool:
    """Tell whether a global is torch, `math`, or a function of theirs."""
    value = names.get(name)
    if isinstance(value, ModuleType):
        return value is math or value.__name__.partition(".")[0] == "torch"
    of = str(getattr(value, "__module__", "") or "").partition(".")[0]
    return callable(value) and of in ("torch", "math")
