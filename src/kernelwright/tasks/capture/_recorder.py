"""Record the ATen ops that run, on real values or fake ones."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

from ...system.dispatch_mode import DispatchMode
from ._graph import Argument, Node, Ref, plain
from ._packed import packed
from ._recurrent import bare

_aten = torch.ops.aten
Decompositions = Mapping[torch._ops.OperatorBase, Callable[..., object]]
CONSTANT_ELEMENTS = 4096
"""Constants up to this size keep their values as numbers in the graph, larger ones as text."""
_ONE_AT_A_TIME = threading.RLock()
_IN_PLACE = {
    "__iand__": "bitwise_and_", "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_", "__irshift__": "bitwise_right_shift_",
}  # fmt: skip
"""Python's operators whose ATen forms functionalization takes for custom ones, and what does the same."""
_OTHERWISE = {
    "aten.transpose.default": "aten.transpose.int", "aten.pow.Tensor": "aten.pow.Tensor_Tensor",
    "aten.floor_divide.Tensor": "aten.floor_divide.default",
    "aten.float_power.Tensor": "aten.float_power.Tensor_Tensor",
}  # fmt: skip
"""Operators whose overload has another name in place."""


def record(
    function: Callable[..., object],
    tensors: Sequence[tuple[Node, torch.Tensor]],
    decompositions: Decompositions,
) -> tuple[list[Node], list[str], list[tuple[str, str]]]:
    """Run a function on tensors and record its operations.

    In-place changes are made functional first, so that the record is a pure graph.

    Does not cover: changes in place that a decomposition makes to a view, where it then reads the whole.

    Args:
        function: Called with the tensors, in order.
        tensors: Node (`input`, `state` or `constant`) and value of each.
        decompositions: Operators to record in parts.

    Returns:
        The nodes, the names of the flattened results, and what changed with its new value.
    """
    recorder = _Recorder(decompositions)
    values = [value.detach().clone() for _, value in tensors]
    for (node, _), value in zip(tensors, values, strict=True):
        recorder.know(value, node)
    functional = torch.func.functionalize(function, remove="mutations")
    with torch.no_grad(), _forward_functions(), _InPlace(), recorder:
        results = functional(*values)
    leaves = [leaf for leaf in tree_flatten(results)[0] if isinstance(leaf, torch.Tensor)]
    return recorder.nodes, [recorder.ref(leaf).name for leaf in leaves], list(recorder.mutations.items())


@contextmanager
def _forward_functions() -> Iterator[None]:
    """Let functions with a backward of their own run forward, which torch refuses of those without `setup_context`."""
    function, apply = torch.autograd.Function, vars(torch.autograd.Function)["apply"]

    def applied(cls: Any, /, *args: object, **kwargs: object) -> object:
        newer = cls.setup_context is not function.setup_context
        if newer or not torch._C._are_functorch_transforms_active():
            return apply.__func__(cls, *args, **kwargs)
        context: Any = torch.autograd.function.FunctionCtx()
        context.needs_input_grad = (False,) * len(args)
        return cls.forward(context, *args, **kwargs)

    with _ONE_AT_A_TIME:
        setattr(function, "apply", classmethod(applied))  # noqa: B010  mypy holds it for a method
        try:
            yield
        finally:
            setattr(function, "apply", apply)  # noqa: B010


class _InPlace(TorchFunctionMode):
    """Calls `&=` and its like on tensors by names that can be made functional."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # torch does not annotate it
        """Exchange the operator for the method."""
        known = _IN_PLACE.get(getattr(func, "__name__", ""))
        return (getattr(torch.Tensor, known) if known else func)(*args, **(kwargs or {}))


class _Recorder(DispatchMode):
    """Every op that reaches the dispatcher becomes a node; every tensor seen is kept alive and named."""

    def __init__(self, decompositions: Decompositions) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.mutations: dict[str, str] = {}
        self._decompositions = {_aten.native_batch_norm.default: _batch_norm, **decompositions}
        self._names: dict[int, str] = {}
        self._alive: list[torch.Tensor] = []
        self._external: dict[int, str] = {}

    def know(self, tensor: torch.Tensor, node: Node) -> None:
        """Add an external tensor."""
        self._external[id(tensor)] = node.name
        self._append(node, tensor)

    def ref(self, tensor: torch.Tensor) -> Ref:
        """Name a tensor; an unknown one is a constant."""
        if id(tensor) not in self._names:
            self._append(constant(f"constant_{len(self.nodes)}", tensor), tensor)
        return Ref(self._names[id(tensor)])

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self, func, types, args=(), kwargs=None
    ):
        """Run the op, or its decomposition, and record it."""
        kwargs = kwargs or {}
        if func in self._decompositions:
            with self:
                result = self._decompositions[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func.namespace == "aten" and func._can_decompose():
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func is _aten.copy_.default and id(args[0]) in self._external:
            self._replaced(args[0], self.ref(args[1]).name)
            return func(*args, **kwargs)
        noted_args = tuple(self._argument(a) for a in args)
        noted_kwargs = tuple((k, self._argument(v)) for k, v in kwargs.items())
        result = func(*args, **kwargs)
        functional = _functional(str(func)) if func._schema.is_mutable else bare(str(func))
        self._note(functional, noted_args, noted_kwargs, result)
        if func._schema.is_mutable and id(args[0]) in self._external:
            self._replaced(args[0], self.ref(args[0]).name)
        return result

    def _replaced(self, tensor: torch.Tensor, new: str) -> None:
        """Record that an external tensor has a new value; later readers read that."""
        self.mutations[self._external[id(tensor)]] = new
        self._names[id(tensor)] = new

    def _argument(self, value: object) -> Argument:
        mapped = tree_map(lambda v: self.ref(v) if isinstance(v, torch.Tensor) else v, value)
        return plain(mapped)

    def _note(
        self, op: str, args: tuple[Argument, ...], kwargs: tuple[tuple[str, Argument], ...], result: object
    ) -> None:
        name = f"{op.split('.')[1].strip('_')}_{len(self.nodes)}"
        if isinstance(result, torch.Tensor):
            self._append(Node(name, op, args, kwargs, tuple(result.shape), dtype_name(result)), result)
        elif isinstance(result, list | tuple):
            self.nodes.append(Node(name, op, args, kwargs))
            for i, part in enumerate(result):
                if isinstance(part, torch.Tensor):
                    self._append(getitem(f"{name}_{i}", name, i, part), part)

    def _append(self, node: Node, tensor: torch.Tensor) -> None:
        self.nodes.append(node)
        self._names[id(tensor)] = node.name
        self._alive.append(tensor)


def _functional(op: str) -> str:
    """Return the operator that returns what one in place writes.

    Example:
        >>> _functional("aten.add_.Tensor"), _functional("aten.transpose_.default")
        ('aten.add.Tensor', 'aten.transpose.int')
    """
    found = re.sub(r"_\.", ".", op)
    return _OTHERWISE.get(found, found)


def _batch_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, mean: torch.Tensor | None,
    variance: torch.Tensor | None, training: bool, momentum: float, epsilon: float,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Choose the operator that shows what a batch norm does with its statistics, as torch.export does."""
    found: tuple[torch.Tensor, ...]
    if not training:
        found = _aten._native_batch_norm_legit_no_training(x, weight, bias, mean, variance, momentum, epsilon)
    elif mean is None or variance is None:
        found = _aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, epsilon)
    else:
        *rest, new_mean, new_variance = _aten._native_batch_norm_legit_functional(
            x, weight, bias, mean, variance, True, momentum, epsilon
        )
        mean.copy_(new_mean)
        variance.copy_(new_variance)
        found = tuple(rest)
    return found


def getitem(name: str, source: str, index: int, value: torch.Tensor) -> Node:
    """Make the node of one result of several."""
    return Node(name, "getitem", (Ref(source), index), (), tuple(value.shape), dtype_name(value))


def outer(name: str, op: str, value: torch.Tensor) -> Node:
    """Make the node of an input, or of a tensor of the state."""
    return Node(name, op, (), (), tuple(value.shape), dtype_name(value))


def constant(name: str, value: torch.Tensor) -> Node:
    """Make the node of a tensor that the reference owns, with its values unless they are too many."""
    kwargs: tuple[tuple[str, Argument], ...] = ()
    if torch._subclasses.fake_tensor.is_fake(value):
        pass
    elif value.numel() <= CONSTANT_ELEMENTS:
        kwargs = (("value", plain(value.flatten().tolist())),)
    elif (text := packed(value)) is not None:
        kwargs = (("packed", text),)
    return Node(name, "constant", (), kwargs, tuple(value.shape), dtype_name(value))


def dtype_name(tensor: torch.Tensor) -> str:
    """Return torch's name of the dtype without the prefix."""
    return str(tensor.dtype).removeprefix("torch.")
