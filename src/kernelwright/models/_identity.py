"""nn.Module → what its answers depend on apart from its state dictionary, and whether that is as it was judged.

Covers: buffers that are not persistent; tensors in attributes, and in lists, tuples, dicts and plain objects that
attributes hold; of a model that is one graph, its operators and the numbers in them too, at the first call.
Does not cover: numbers and code that change after the first call; numbers and code of a model whose graph breaks; a
global of its file that is bound to another tensor.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import getitem, is_not
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn

from ..languages.prepared import Seen
from ..records import Task, content_key
from ..tasks import Problem
from ._dynamo_form import content
from ._records import Identity
from ._target import Loaded
from .pieces import Capture, Unprintable, expression

_OF_MODULES = frozenset(vars(nn.Module()))
_CLOSED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_DEEPEST = 6
_GPU = re.compile(r"torch\.device\('cuda(:\d+)?'\)")
Steps = tuple[tuple[Any, Any, Any], ...]


class Place(NamedTuple):
    """Where a model holds a tensor that is not in its state dictionary."""

    name: str
    """Its path from the model: `layers.0.rotary.table`, `tables[1]`."""
    steps: tuple[tuple[Any, Any, Any], ...]
    """From a module's own dict to the tensor: what holds it, the key there, what lies there."""

    @property
    def tensor(self) -> torch.Tensor:
        """The tensor."""
        found: torch.Tensor = self.steps[-1][2]
        return found


def places_outside(model: nn.Module) -> list[Place]:
    """Return the dense tensors that a model holds outside its state dictionary, in a fixed order.

    Example:
        >>> layer = nn.ReLU()
        >>> layer.register_buffer("table", torch.ones(2), persistent=False)
        >>> layer.scales = [torch.ones(3)]
        >>> [place.name for place in places_outside(layer)]
        ['table', 'scales[0]']
    """
    known = {id(model), *(id(t) for t in model.state_dict(keep_vars=True).values())}
    return list(_of_module("", model, (), known))


def _of_module(path: str, module: nn.Module, above: Steps, known: set[int]) -> Iterator[Place]:
    at = f"{path}." if path else ""
    attributes = [name for name in vars(module) if name not in _OF_MODULES]
    for holder, names in (
        (module._parameters, list(module._parameters)),
        (module._buffers, list(module._buffers)),
        (vars(module), attributes),
    ):
        for name in names:
            yield from _of_value(f"{at}{name}", (*above, (holder, name, holder[name])), known)
    for name, part in module._modules.items():
        if part is not None and id(part) not in known:
            known.add(id(part))
            yield from _of_module(f"{at}{name}", part, above, known)


def _of_value(path: str, steps: Steps, known: set[int]) -> Iterator[Place]:
    value = steps[-1][2]
    if isinstance(value, torch.Tensor):
        if id(value) not in known and value.layout is torch.strided and value.device.type != "meta":
            yield Place(path, steps)
        return
    if id(value) in known or len(steps) > _DEEPEST or isinstance(value, (*_PLAIN, *_CLOSED)):
        return
    known.add(id(value))
    if isinstance(value, nn.Module):
        yield from _of_module(path, value, steps, known)
    elif isinstance(value, Mapping):
        for key, one in list(value.items()):
            yield from _of_value(f"{path}[{key!r}]", (*steps, (value, key, one)), known)
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from _of_value(f"{path}[{number}]", (*steps, (value, number, one)), known)
    elif isinstance(own := getattr(value, "__dict__", None), dict):
        for name, one in list(own.items()):
            yield from _of_value(f"{path}.{name}", (*steps, (own, name, one)), known)


def graph_hash(capture: Capture) -> str:
    """Return a hash of a model's graph: operators, numbers, contents of constants, names of weights, shapes, dtypes.

    A model is captured on the processor, and has the same hash on a GPU.

    Raises:
        Unprintable: an operator cannot be written down.
    """
    names = {name: f"a{i}" for i, name in enumerate(capture.inputs)}
    names |= {name: f"weight {target}" for name, target in capture.weights.items()}
    names |= {name: f"constant {content(value)}" for name, value in capture.constants.items()}
    lines = [f"{names[n]}: {tuple(v.shape)} {v.dtype}" for n, v in capture.values.items() if n in names]
    for number, node in enumerate(capture.nodes):
        lines.append(_GPU.sub("torch.device('cpu')", expression(node, names.__getitem__)))
        names[node.name] = f"v{number}"
    lines += [f"{names[old]} is set to {names[new]}" for old, new in capture.mutations]
    return content_key(*lines, *(names[o] for o in capture.outputs))


def identity_of(loaded: Loaded, capture: Capture | None, task: Task) -> Identity:
    """Return what a judged model's answers depend on apart from its state.

    Args:
        loaded: The model.
        capture: Its graph; None where that breaks, and all its tensors outside the state count.
        task: The task that its program was judged on; its reference holds the values that were verified.
    """
    judged = loaded.module
    if loaded.text is not None:
        made = Problem(task).reference(task.workloads[0])
        assert isinstance(made, nn.Module)
        judged = loaded.within(made)
    if capture is None:
        return Identity(tensors={p.name: content(p.tensor) for p in places_outside(judged)})
    read = {value.data_ptr() for value in capture.constants.values() if value.numel()}
    wanted = {p.name for p in places_outside(loaded.module) if p.tensor.data_ptr() in read}
    tensors = {p.name: content(p.tensor) for p in places_outside(judged) if p.name in wanted}
    try:
        return Identity(tensors=tensors, graph=graph_hash(capture), torch=torch.__version__)
    except Unprintable:
        return Identity(tensors=tensors)


class Outside:
    """Watches the tensors that a model holds outside its state dictionary.

    Example:
        >>> layer = nn.ReLU()
        >>> layer.table = torch.ones(2)
        >>> outside = Outside(layer)
        >>> outside.changed()
        >>> layer.table.add_(1), outside.changed()
        (tensor([2., 2.]), "'table', which is outside the state dictionary, has other values than those judged")
    """

    def __init__(self, model: nn.Module, judged: Mapping[str, str] | None = None) -> None:
        """Look at the tensors of these names, or at all, which count as judged with the values that they have."""
        self._model = model
        found = places_outside(model)
        self._judged = {p.name: content(p.tensor) for p in found} if judged is None else dict(judged)
        self._steps: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        self._tensors: list[torch.Tensor] = []
        self._read: list[torch.Tensor] = []
        self._tensors_seen, self._read_seen = Seen(), Seen()
        self._said, self._complete = "", True
        self._look(found)

    def watch(self, constants: Sequence[torch.Tensor]) -> None:
        """Watch the tensors that the graph reads as well, wherever it finds them."""
        seen = {t.data_ptr() for t in self._tensors}
        self._read = [t for t in constants if t.data_ptr() not in seen and not t.is_inference()]
        self._read_seen.look(self._read)

    def changed(self) -> str | None:
        """Return a sentence about a tensor that is not as it was judged; None while all are."""
        if self._judged:
            holders, keys, values = self._steps
            try:
                same = self._complete and not any(map(is_not, map(getitem, holders, keys), values))
            except (KeyError, IndexError):
                same = False
            if not same or self._tensors_seen.differ(self._tensors):
                self._look(places_outside(self._model))
        if self._read and self._read_seen.differ(self._read):
            return "a tensor that the model's code reads was written to since the model was patched"
        return self._said or None

    def held(self) -> tuple[list[tuple[Any, Any, Any]], list[torch.Tensor]]:
        """Return what must stay in its place (what holds it, the key there, what it is), and the tensors to follow."""
        return list(zip(*self._steps, strict=True)), [*self._tensors, *self._read]

    def _look(self, found: Sequence[Place]) -> None:
        """Compare the contents, and remember where they are and how often they were written to."""
        places = {p.name: p for p in found if p.name in self._judged}
        self._complete = len(places) == len(self._judged)
        self._said = next(
            (said for n, hashed in self._judged.items() if (said := _said(n, places, hashed))), ""
        )
        steps = [step for p in places.values() for step in p.steps]
        self._steps = [s[0] for s in steps], [s[1] for s in steps], [s[2] for s in steps]
        self._tensors = [p.tensor for p in places.values() if not p.tensor.is_inference()]
        self._tensors_seen.look(self._tensors)


def _said(name: str, places: Mapping[str, Place], judged: str) -> str:
    """Say what is wrong with a tensor; nothing where it is as it was judged."""
    if name not in places:
        return f"the model has no tensor {name!r} outside its state dictionary; it was judged with one"
    tensor = places[name].tensor
    if tensor.is_inference():
        return f"{name!r} was made in inference mode, so that changes of it cannot be seen"
    if content(tensor) != judged:
        return f"{name!r}, which is outside the state dictionary, has other values than those judged"
    return ""
