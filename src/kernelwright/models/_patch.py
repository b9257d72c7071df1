"""Model, accepted result → patched model: reversible, whole or not at all, native outside what was verified."""

import logging
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import getitem, is_not
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from torch.nn.modules import module as of_all
from torch.utils import _pytree as pytree

from ..deploy.runtime.operators import apart, is_transformed
from ..errors import InputError
from ..languages.prepared import Prepared
from ..records import TensorSpec
from ._capture import capture_as_one
from ._identity import Outside, graph_hash
from ._in_place import PLACE, InPlace, check_free
from ._nested import emptied, hooked, rebuilt, set_by_call
from ._patched_operator import number_of
from ._records import Identity
from ._snapshot import Snapshots, never
from ._target import Whole, call_signature, tensors_of
from .pieces import Capture

_LOG = logging.getLogger(__name__)
_ALONE = object()
"""Stands for a result that is one tensor."""


class Patch(InPlace):
    """A patched model. As a context manager it is removed at the end.

    The model's own `forward` runs whenever a call is not one that was verified: other shapes, dtypes or layouts, other
    values of arguments that are no tensors, a gradient asked for, autocast, torch.func, training mode, hooks on a part,
    a part replaced, a tensor outside the state dictionary changed, such as a buffer that is not persistent; and always
    if the first call shows another graph than the judged one. Parameters are read in every call, so that loading a
    state dictionary or training on is seen. The state dictionary has the same names and tensors as before.
    """

    _training = False
    """The mode of the model; its parts have those in which the first call found them."""

    def __init__(
        self,
        model: nn.Module,
        kernel: Callable[..., Any],
        weights: Sequence[str],
        inputs: Sequence[TensorSpec],
        call: str,
        identity: Identity | None = None,
        snapshots: Snapshots | None = None,
        place: str = "cpu",
    ) -> None:
        """Put `kernel(*tensors, *weights)` in place of the model's forward.

        Args:
            model: The model, in eval mode.
            kernel: Returns the tensors of the model's result in order, and declines what it does not serve with
                `NotImplementedError("Unsupported: ...")`.
            weights: Names of parameters and buffers in the order in which the kernel takes them.
            inputs: What the tensors of a call must be.
            call: How a call is nested, and all in it that is no tensor (`call_signature`).
            identity: What else the model's answers depend on; without it, the model counts as it is now.
            snapshots: Makes compiled checks of calls; without it, Python checks every call.
            place: The device that it was verified on, as torch calls it, where tensors and weights must be.

        Raises:
            InputError: the model is patched already, or is another than the one that was judged.
        """
        check_free(model)
        self.model, self.calls, self.native_calls = model, 0, 0
        self.reason = ""
        """Why the last call was native, where the model is not as it was judged."""
        self._kernel, self._native, self._device = kernel, model.forward, torch.device(place)
        self._specs = [(torch.Size(s.shape), getattr(torch, s.dtype)) for s in inputs]
        self.sizes = tuple(shape for shape, _ in self._specs)
        """Sizes of the tensors of a call that was verified."""
        self._judged, self._weight_names = identity.tensors if identity else None, tuple(weights)
        self._graph = identity.graph if identity and identity.torch == torch.__version__ else ""
        self._bind()
        if said := self._outside.changed():
            raise InputError(f"the model is another than the one that was judged: {said}; optimise it again")
        self._snapshots = snapshots
        self._snapshot: Callable[..., Any] = never
        self._call, self._other = call, False
        self._template: Any = None
        self._structure: tuple[Any, list[Any]] | None = None
        self._flat: tuple[int, tuple[str, ...], list[tuple[int, Any]]] | None = None
        self._number, self.results = -1, list[tuple[torch.Size, torch.dtype]]()
        vars(model)[PLACE] = self.answer

    def _bind(self) -> None:
        """Find where the model holds what must stay as it is."""
        model = self.model
        self._outside = Outside(model, self._judged)
        places = [_place(model, name) for name in self._weight_names]
        self._holders, self._names = [p for p, _ in places], [name for _, name in places]
        parts = [m for m in model.modules() if m is not model]
        held: list[tuple[Any, str, Any]] = [(vars(model), "training", self._training)]
        held += [(m._modules, name, part) for m in model.modules() for name, part in m._modules.items()]
        self._owners, self._children, self._parts = map(list, zip(*held, strict=True))
        self._attributes = [vars(m) for m in parts]
        self._forwards = [attributes.get(PLACE) for attributes in self._attributes]
        self._hooked = [h for m in parts for h in (m._forward_hooks, m._forward_pre_hooks)]
        self._hooked += [of_all._global_forward_hooks, of_all._global_forward_pre_hooks]
        self._bound = True

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a patched model has modules of its own, which its patch finds in the next call."""
        return {**vars(self), "_snapshot": never, "_bound": False, "_structure": None, "_number": -1}

    def answer(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call of the model: what lies in place of its forward."""
        if is_compiling():
            return self._traced(args, kwargs)
        try:
            result = self._snapshot(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            return self._declined(error, args, kwargs)
        if result is None:
            return self._checked(args, kwargs)
        self.calls += 1
        return result if type(result) is torch.Tensor and self._template is _ALONE else self._nested(result)

    def _traced(self, args: Any, kwargs: Any) -> Any:
        """Answer where a graph is made: by an operator for calls of the verified kind, else by the native model."""
        weights = self._weights()
        if (
            self._training
            or self._other
            or weights is None
            or torch.compiler.is_exporting()
            or is_transformed()
        ):
            return self._native(*args, **kwargs)
        tensors = self._served(args, kwargs) if self._number >= 0 else list(tensors_of((args, kwargs)))
        if tensors is None or not self._fits(tensors, weights):
            return self._native(*args, **kwargs)
        if self._number < 0:
            return _eagerly(self, args, kwargs)
        results = torch.ops.kernelwright.patched(tensors, weights, self._number)
        return self._nested(results)

    def in_graph(
        self, tensors: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Answer a call in a graph with these tensors, and the weights as they are there; the graph may change them."""
        assert self._structure is not None
        structure, plain = self._structure
        rest = iter(tensors)
        args, kwargs = pytree.tree_unflatten([next(rest) if p is None else p for p in plain], structure)
        held = self._weights()
        if held is not None and not any(map(is_not, held, weights)):
            result = self.answer(*args, **kwargs)
        else:
            state = dict(zip(self._weight_names, weights, strict=True))
            result = torch.func.functional_call(self.model, state, args, kwargs)
        return list(apart(tensors_of(result), [*tensors, *weights]))

    def _checked(self, args: Any, kwargs: Any) -> Any:
        """Answer a call that is not as the last one was."""
        if not self._bound:
            self._bind()
        tensors, weights = self._served(args, kwargs), self._weights()
        if tensors is None or weights is None or not self._is_as_verified(tensors, weights):
            self.native_calls += 1
            return self._native(*args, **kwargs)
        if self._structure is None:
            return self._first(args, kwargs)
        try:
            result = self._answer(tensors, weights)
        except (NotImplementedError, RuntimeError) as error:
            return self._declined(error, args, kwargs)
        self.calls += 1
        self._remember(args, kwargs, tensors, weights)
        return self._nested(result)

    def _declined(self, error: Exception, args: Any, kwargs: Any) -> Any:
        """Let the native model answer what the kernel does not serve; other errors are errors."""
        if not str(error).startswith("Unsupported"):
            raise error
        self.native_calls += 1
        return self._native(*args, **kwargs)

    def _nested(self, result: Any) -> Any:
        """Return the kernel's result nested as the model's is."""
        tensors = (result,) if isinstance(result, torch.Tensor) else result
        return tensors[0] if self._template is _ALONE else rebuilt(self._template, iter(tensors))

    def _weights(self) -> list[torch.Tensor] | None:
        """Return the weights as the model has them now; None where one is missing."""
        try:
            found = list(map(getitem, self._holders, self._names))
        except KeyError:
            return None
        return None if any(weight is None for weight in found) else found

    def _remember(
        self, args: Any, kwargs: Any, tensors: list[torch.Tensor], weights: list[torch.Tensor]
    ) -> None:
        """Take a snapshot of a call that was served; what changed meanwhile is seen by checking once more."""
        if self._snapshots is None or self._flat is None:
            return
        kernel, tail = self._called(len(tensors)), tuple[Any, ...](weights)
        outside, watched = self._outside.held()
        held: list[tuple[Any, Any, Any]] = [
            (vars(forward_ad), "_current_level", forward_ad._current_level),
            *zip(self._owners, self._children, self._parts, strict=True),
            *zip(self._holders, self._names, weights, strict=True),
            *outside,
        ]
        read, placed = watched, weights
        if isinstance(self._kernel, Prepared):
            kernel, packed, place = self._kernel.packed()
            tail, read, placed = (packed,), [*weights, *watched], []
            held.append(place)
        snapshot = self._snapshots(
            kernel, tail, (*args, *kwargs.values()), tuple(kwargs), held, self._attributes, self._hooked, read, placed
        )  # fmt: skip
        followed = not isinstance(self._kernel, Prepared) or self._kernel.is_packed(*weights)
        if snapshot is not None and followed and self._is_as_verified(tensors, weights):
            self._snapshot = snapshot

    def _called(self, count: int) -> Callable[..., Any]:  # noqa: ARG002  another patch counts
        """Return what takes so many tensors and the weights, and returns the tensors of the model's result."""
        return self._kernel

    def _answer(self, tensors: list[torch.Tensor], weights: list[torch.Tensor]) -> Any:
        """Return the tensors of the model's result by the kernel."""
        return self._called(len(tensors))(*tensors, *weights)

    def _fits_mode(self, tensors: list[Any], weights: list[torch.Tensor]) -> bool:
        """Tell whether the model is in the mode that was verified: here eval, without gradients."""
        return not (torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *weights)))

    def _captured(self, args: Any, kwargs: Any) -> Capture:
        """Return the graph that the model has on these inputs."""
        return capture_as_one(Whole(self.model, args, kwargs))

    def _first(self, args: Any, kwargs: Any) -> Any:
        """Let the native model answer the first call of the verified kind, whose structure later results take."""
        parts = list(self.model.modules())
        before = [dict(vars(part)) for part in parts]
        result = self._native(*args, **kwargs)
        self.native_calls += 1
        if said := set_by_call(parts, before) or hooked(self.model):
            self.reason = said
            return result
        if self._graph and not self._has_graph(args, kwargs):
            return result
        moded = [part for part in parts if "training" in vars(part)]
        for part in moded:  # in the modes that the graph has just been made in
            self._owners.append(vars(part))
            self._children.append("training")
            self._parts.append(part.training)
        leaves, structure = pytree.tree_flatten((args, kwargs))
        self._template = _ALONE if isinstance(result, torch.Tensor) else emptied(result)
        self._structure = structure, [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.results = [(t.shape, t.dtype) for t in tensors_of(result)]
        self._number = number_of(self)
        values = (*args, *kwargs.values())
        if all(isinstance(v, torch.Tensor | bool | int | float | str | None) for v in values):
            plain = [(i, v) for i, v in enumerate(values) if not isinstance(v, torch.Tensor)]
            self._flat = len(args), tuple(kwargs), plain
        return result

    def _has_graph(self, args: Any, kwargs: Any) -> bool:
        """Tell whether the model's graph is the one that was judged; if not, all calls stay native."""
        in_place = vars(self.model).pop(PLACE)
        try:
            capture = self._captured(args, kwargs)
            same = graph_hash(capture) == self._graph
        except Exception as error:  # noqa: BLE001  the model's own code runs under the exporter, and may raise anything
            _LOG.debug("the patched model cannot be exported: %s: %s", type(error).__name__, error)
            same = False
        finally:
            vars(self.model)[PLACE] = in_place
        if same:
            self._outside.watch(list(capture.constants.values()))
        else:
            self.reason = "its graph is another than the one that was judged"
            _LOG.warning("the patched model stays native: %s; optimise it again", self.reason)
        self._graph, self._other = "", not same
        return same

    def _served(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor] | None:
        """Return the tensors of a call that is nested as it was captured, with the same values of all else."""
        if self._flat is not None:
            count, names, plain = self._flat
            if len(args) == count and (not names or tuple(kwargs) == names) and len(kwargs) == len(names):
                values = (*args, *kwargs.values()) if names else args
                if not plain:
                    return list(values)
                if all(type(values[i]) is type(v) and values[i] == v for i, v in plain):
                    places = {i for i, _ in plain}
                    return [v for i, v in enumerate(values) if i not in places]
        leaves, structure = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if self._structure is None:
            return tensors if call_signature(leaves, structure) == self._call else None
        known, plain_leaves = self._structure
        same = structure == known and all(
            one is None or one == leaf for one, leaf in zip(plain_leaves, leaves, strict=True)
        )
        return tensors if same else None

    def _is_as_verified(self, tensors: list[Any], weights: list[torch.Tensor]) -> bool:
        """Tell whether the tensors are as they were verified, and the model as it was when it was patched."""
        if self._other or any(self._hooked) or is_transformed() or not self._fits(tensors, weights):
            return False
        if self._device.type != "cpu" and torch.cuda.current_device() != self._device.index:
            return False  # launches go to the current GPU
        if said := self._outside.changed():
            self.reason = said
            return False
        if any(map(is_not, map(_part, self._owners, self._children), self._parts)):
            return False
        return not any(map(is_not, map(_part, self._attributes, repeat(PLACE)), self._forwards))

    def _fits(self, tensors: list[Any], weights: list[torch.Tensor]) -> bool:
        """Tell whether tensors and modes are those that were verified; a graph is made of this, too."""
        return (
            len(tensors) == len(self._specs)
            and not torch.is_autocast_enabled(self._device.type)
            and self._fits_mode(tensors, weights)
            and all(w.is_contiguous() and w.device == self._device for w in weights)
            and all(
                type(t) is torch.Tensor
                and t.shape == shape
                and t.dtype is dtype
                and t.device == self._device
                and t.is_contiguous()
                for t, (shape, dtype) in zip(tensors, self._specs, strict=True)
            )
        )


@torch.compiler.disable(  # type: ignore[no-untyped-call, untyped-decorator]
    reason="the first call of a patched model, which shows how its result is nested, is not traced"
)
def _eagerly(patch: Patch, args: Any, kwargs: Any) -> Any:
    return patch._checked(args, kwargs)


_part: Callable[[dict[str, Any], str], Any] = dict.get
"""A module's part by its name, or none."""


def _place(model: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Return the dictionary of the module that holds a parameter or buffer, and its name there."""
    path, _, last = name.rpartition(".")
    try:
        owner = model.get_submodule(path)
    except AttributeError:
        raise InputError(f"the model has no parameter or buffer {name!r}") from None
    for places in (owner._parameters, owner._buffers):
        if places.get(last) is not None:
            return places, last
    raise InputError(f"the model has no parameter or buffer {name!r}")
