"""Problem, Workload → Graph: which ATen ops the reference runs, on fake tensors where possible.

`capture` uses torch.export; `trace` records what runs on fake tensors, in a twentieth of the time.
"""

import functools
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.fx.experimental.proxy_tensor import make_fx

from ...errors import TaskError
from ...records import ScalarSpec, TensorSpec, Workload
from . import _attention
from ._constants import constants_of, own_tensors
from ._graph import Argument, Graph, Node, Ref, Value, plain
from ._recorder import Decompositions, constant, dtype_name, outer, record
from ._recurrent import Whole, bare
from ._tidied import tidied

if TYPE_CHECKING:
    from .._problem import Problem

__all__ = ["Argument", "Graph", "Node", "Ref", "capture", "record_function", "trace"]

_KEPT = (
    "_safe_softmax.default",
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "logsumexp.default",
    "nll_loss2d_forward.default",
    "nll_loss_forward.default",
    "scaled_dot_product_attention.default",
    "select_scatter.default",
    "tril.default",
    "triu.default",
)
"""Operators kept whole in addition to core ATen (softmax, layer and group norm, convolution, pooling, scans).

RMSNorm is not: `torch.nn.functional.rms_norm` and the many RMSNorms written by hand then have the same
form, `pow, mean, add, rsqrt, mul, mul`. Activations are decomposed into elementwise parts.
"""

_MESSAGE_CHARACTERS = 300
_FOUND: WeakKeyDictionary["Problem", dict[str, Graph]] = WeakKeyDictionary()
"""The graphs found so far by problem and workload: an export takes half a second, and several stages need it."""


def capture(problem: "Problem", workload: Workload) -> Graph:
    """Find the graph of the problem's reference on one workload.

    The reference is exported on fake tensors: nothing is computed, whatever the size. Where it cannot be
    (control flow that depends on values, results whose size does), it runs once on real inputs and is
    recorded. For a backward task it is the forward's graph. It is cached per problem and workload.

    Args:
        problem: Provides the reference, and the inputs if needed.
        workload: Sizes, dtypes and scalars.

    Returns:
        The graph, functional, in core ATen without decomposing softmax, norms, losses and attention.
    """
    workload = workload.forward
    known, key = _FOUND.setdefault(problem, {}), workload.model_dump_json()
    if key not in known:
        known[key] = _captured(problem, workload)
    return known[key]


def _captured(problem: "Problem", workload: Workload) -> Graph:
    reference = problem.reference(workload)
    with quiet(), torch.no_grad():
        try:
            return _exported(reference, workload)
        except _NotExportable:
            pass
        try:
            return record_function(reference, workload, problem.inputs(workload, 0))
        except Exception as error:  # whatever a reference raises in a recording is told as the task's
            said = " ".join(str(error).split())[:_MESSAGE_CHARACTERS]
            raise TaskError(
                f"{problem.task.name}: its operations cannot be recorded, so that no bound is known; "
                f"torch says {type(error).__name__}: {said}"
            ) from error


def trace(problem: "Problem", workload: Workload) -> Graph:
    """Find the same graph by running the reference once on fake tensors: some 20 ms instead of 500.

    The operators are those of `capture`, except attention, which appears as the one that the device runs.
    The reference is made a second time, for the values of its constants. If it cannot run on fake tensors, or
    constants are made while it runs, it is captured.

    Returns:
        The graph. Its names may differ from those of `capture`, and so may the order of independent ops.
    """
    workload = workload.forward
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with quiet(), torch.no_grad():
            with mode:
                reference = problem.reference(workload)
            held = constants_of(problem.reference(workload)) if constants_of(reference) else {}
            constants = {name: constant(name, value) for name, value in held.items()}
            with mode:
                tensors = [a for a in workload.arguments if isinstance(a, TensorSpec)]
                device = _device(reference) if isinstance(reference, nn.Module) else torch.device("cpu")
                fakes = [(spec.name, empty(spec, device)) for spec in tensors]
                inputs = [(outer(name, "input", fake), fake) for name, fake in fakes]
                found = _record(reference, workload, inputs, mode.from_tensor, "trace", constants)
    except Exception:  # noqa: BLE001  whatever a reference raises on fakes, `capture` reports it properly
        return capture(problem, workload)
    lost = [n for n in found.nodes if n.op == "constant" and not n.kwargs]
    return capture(problem, workload) if lost else found


class _NotExportable(Exception):
    """torch.export has no static graph of this reference."""


class _Bound(nn.Module):
    """The reference with its scalar arguments bound."""

    def __init__(self, reference: Callable[..., object], workload: Workload) -> None:
        super().__init__()
        self.inner = reference
        self.scalars = {i: scalar(a) for i, a in enumerate(workload.arguments) if isinstance(a, ScalarSpec)}

    def forward(self, *tensors: torch.Tensor) -> object:
        rest = iter(tensors)
        count = len(self.scalars) + len(tensors)
        given = [self.scalars[i] if i in self.scalars else next(rest) for i in range(count)]
        with Whole():
            return self.inner(*given)


def _exported(reference: Callable[..., object], workload: Workload) -> Graph:
    tensors = [a for a in workload.arguments if isinstance(a, TensorSpec)]
    module = _Bound(reference, workload)
    with FakeTensorMode():
        fakes = tuple(empty(spec, _device(module)) for spec in tensors)
    program = _export(module, fakes)
    names, outside = _outside(program, tensors)
    nodes = [*outside]
    for fx in program.graph.nodes:
        if fx.op == "call_function":
            node = _node(fx, names)
            names[fx.name] = node.name
            nodes.append(node)
    outputs, mutations = [], []
    for spec in program.graph_signature.output_specs:
        if not isinstance(spec.arg, TensorArgument):
            continue
        if spec.kind is OutputKind.USER_OUTPUT:
            outputs.append(names[spec.arg.name])
        elif spec.kind is OutputKind.BUFFER_MUTATION and spec.target:
            mutations.append((spec.target.removeprefix("inner."), names[spec.arg.name]))
        elif spec.kind is OutputKind.USER_INPUT_MUTATION and spec.target:
            mutations.append((names[spec.target], names[spec.arg.name]))
    return tidied(nodes, outputs, mutations, workload, "export")


def _export(module: nn.Module, fakes: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    """Export and decompose; a reference can raise anything here."""
    try:
        exported = torch.export.export(module, fakes, strict=False)
        program: torch.export.ExportedProgram = exported.run_decompositions(dict(decompositions()))
        return program
    except Exception as error:
        raise _NotExportable(str(error)) from error


def _outside(
    program: torch.export.ExportedProgram, tensors: list[TensorSpec]
) -> tuple[dict[str, str], list[Node]]:
    """Name inputs, state and constants as the task does."""
    names, nodes = {}, []
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    arguments = iter(tensors)
    for spec in program.graph_signature.input_specs:
        if not isinstance(spec.arg, TensorArgument):
            continue
        fake = values[spec.arg.name]
        target = (spec.target or "").removeprefix("inner.")
        if spec.kind is InputKind.USER_INPUT:
            name, op = next(arguments).name, "input"
        elif spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False:
            name, op = target, "constant"
            nodes.append(constant(name, program.constants.get(spec.target or "", fake)))
        else:
            name, op = target, "state"
        names[spec.arg.name] = name
        if op != "constant":
            nodes.append(outer(name, op, fake))
    return names, nodes


def _node(fx: torch.fx.Node, names: dict[str, str]) -> Node:
    if fx.target.__name__ == "getitem":  # type: ignore[union-attr]
        op = "getitem"
    elif isinstance(fx.target, torch._ops.OpOverload):
        op = bare(str(fx.target))
    else:
        raise _NotExportable(f"{fx.target} works on sizes that depend on values")
    value = fx.meta.get("val")
    args = tuple(_argument(a, names) for a in fx.args)
    kwargs = tuple((k, _argument(v, names)) for k, v in fx.kwargs.items() if v is not None)
    name = f"%{fx.name}"  # an input or a constant may be called as it is
    if isinstance(value, list | tuple):
        return Node(name, op, args, kwargs)
    if not isinstance(value, torch.Tensor):
        raise _NotExportable(f"{fx.name} turns a tensor's value into a number")
    if not all(type(size) is int for size in value.shape):
        raise _NotExportable(f"the size of {fx.name} depends on values")
    return Node(name, op, args, kwargs, tuple(value.shape), dtype_name(value))


def _argument(value: object, names: dict[str, str]) -> Argument:
    if isinstance(value, torch.fx.Node):
        return Ref(names[value.name])
    if isinstance(value, list | tuple):
        return tuple(_argument(v, names) for v in value)
    return plain(value)


def record_function(reference: Callable[..., object], workload: Workload, values: Sequence[object]) -> Graph:
    """Find the graph of a function or module by running it once, in a tenth of the time of an export.

    Args:
        reference: What to run; no task is needed.
        workload: Names and specs of its arguments.
        values: The arguments, in the same order.

    Example:
        >>> x = TensorSpec(name="x", shape=(2, 3), dtype="float32")
        >>> graph = record_function(torch.relu, Workload(name="w", arguments=(x,)), [torch.ones(2, 3)])
        >>> [node.op for node in graph.ops]
        ['aten.relu.default']
    """
    if isinstance(reference, nn.Module):
        own_tensors(reference)
    tensors = [
        (outer(spec.name, "input", value), value)
        for spec, value in zip(workload.arguments, values, strict=True)
        if isinstance(value, torch.Tensor)
    ]
    return _record(reference, workload, tensors, lambda value: value, "dispatch")


def _record(
    reference: Callable[..., object],
    workload: Workload,
    tensors: list[tuple[Node, torch.Tensor]],
    taken: Callable[[torch.Tensor], torch.Tensor],
    how: Literal["dispatch", "trace"],
    known: Mapping[str, Node] = MappingProxyType({}),
) -> Graph:
    """Record the reference on these inputs and on its own state, each tensor as `taken` has it.

    Constants of which `known` has the node, by name, have the values that are there.
    """
    bound = _Bound(reference, workload)
    lasting = {k: v for k, v in bound.state_dict().items() if isinstance(v, torch.Tensor)}
    passing = {k: v for k, v in bound.named_buffers() if k not in lasting}
    held = lasting | passing
    state = []
    for name, value in ((name, taken(value)) for name, value in held.items()):
        own = name.removeprefix("inner.")
        node = outer(own, "state", value) if name in lasting else known.get(own) or constant(own, value)
        state.append((node, value))

    def call(*everything: torch.Tensor) -> object:
        arguments, given = everything[: len(tensors)], everything[len(tensors) :]
        return torch.func.functional_call(
            bound, dict(zip(held, given, strict=True)), arguments, tie_weights=False
        )

    nodes, outputs, changed = _recorded(call, [*tensors, *state])
    constants = {name.removeprefix("inner.") for name in passing}
    mutations = [(name, new) for name, new in changed if name not in constants]
    return tidied(nodes, outputs, mutations, workload, how)


def _recorded(
    call: Callable[..., object], given: list[tuple[Node, torch.Tensor]]
) -> tuple[list[Node], list[str], list[tuple[str, str]]]:
    """Record a call; one that asks autograd for gradients itself is unrolled first, which recording does not allow."""
    try:
        return record(call, given, decompositions())
    except RuntimeError as error:
        if "requires_grad_()" not in str(error):
            raise
        unrolled = make_fx(call)(*(value.detach().clone() for _, value in given))
        return record(unrolled, given, decompositions())


@functools.cache
def decompositions() -> Decompositions:
    """Return the operators that are recorded in parts, with their parts."""
    table = torch.export.default_decompositions().materialize()
    kept = {f"aten.{name}" for name in _KEPT}
    return {op: parts for op, parts in table.items() if str(op) not in kept} | _attention.PARTS


def empty(spec: TensorSpec, device: torch.device | str = "cpu") -> torch.Tensor:
    """Make an uninitialised tensor with the spec's sizes and layout."""
    dtype = getattr(torch, spec.dtype)
    shape = list(spec.shape)
    if spec.layout == "transposed" and len(shape) > 1:
        shape[-1], shape[-2] = shape[-2], shape[-1]
        return torch.empty(shape, dtype=dtype, device=device).transpose(-1, -2)
    if spec.layout == "strided" and shape:
        return torch.empty([*shape[:-1], 2 * shape[-1]], dtype=dtype, device=device)[..., ::2]
    return torch.empty(shape, dtype=dtype, device=device)


def _device(module: nn.Module) -> torch.device:
    tensors = (*module.parameters(), *module.buffers())
    return tensors[0].device if tensors else torch.device("cpu")


def scalar(spec: ScalarSpec) -> Value | list[Value]:
    """Return the value of an argument that is no tensor."""
    return list(spec.value) if isinstance(spec.value, tuple) else spec.value


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the exporter's own warnings, logs and prints from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
