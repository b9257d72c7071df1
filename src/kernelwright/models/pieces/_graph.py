"""Module → Capture: its graph as functional ATen ops, by torch.export."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import fx
from torch.export.graph_signature import InputKind, OutputKind

_DROPPED = (
    "aten._assert",
    "aten.sym_constrain",
    "aten._assert_tensor_metadata",
    "aten._assert_async",
    "aten._assert_scalar",
)


@dataclass(frozen=True)
class Capture:
    """One graph of a model."""

    name: str
    """`model`, or the number of the piece: `piece 1`."""
    nodes: tuple[fx.Node, ...]
    """The calls in the order in which they run, functional."""
    inputs: tuple[str, ...]
    """Nodes of the tensors that it is called with, in order."""
    weights: dict[str, str]
    """Node → name of the parameter or buffer in the model's state dictionary."""
    constants: dict[str, torch.Tensor]
    """Node → tensor that belongs to the graph itself."""
    outputs: tuple[str, ...]
    """Nodes of the results, in order."""
    mutations: tuple[tuple[str, str], ...]
    """Weights and inputs that the call changes, each with the node of its new value."""
    values: dict[str, torch.Tensor] = field(repr=False)
    """The tensors of inputs and weights in the captured call, by node."""
    paths: dict[str, tuple[str, ...]] = field(repr=False)
    """Node → the modules that it ran in, from the outermost to the innermost; empty where that is not known."""
    kinds: dict[str, str] = field(repr=False)
    """Module → its class."""

    @cached_property
    def place(self) -> dict[str, int]:
        """Node → its place among `nodes`."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    @cached_property
    def folded(self) -> frozenset[str]:
        """Nodes that depend on constants alone, not on inputs or weights: they are the same in every call."""
        same = set(self.constants)
        for node in self.nodes:
            if not getattr(node.target, "__name__", "").startswith("rand") and all(
                n.name in same for n in node.all_input_nodes
            ):
                same.add(node.name)
        return frozenset(same - set(self.constants))


def captured_program(name: str, module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> Capture:
    """Capture a module that takes all its tensors as arguments, as parts of a model are; raises what that raises."""
    return exported(name, module, tensors, {})


def exported(
    name: str, module: torch.nn.Module, tensors: Sequence[torch.Tensor], state: Mapping[str, torch.Tensor]
) -> Capture:
    program = torch.export.export(module, tuple(tensors), strict=False).run_decompositions({})
    return _capture(name, program, tensors, state)


def _capture(
    name: str,
    program: torch.export.ExportedProgram,
    tensors: Sequence[torch.Tensor],
    state: Mapping[str, torch.Tensor],
) -> Capture:
    inputs: list[str] = []
    weights: dict[str, str] = {}
    constants: dict[str, torch.Tensor] = {}
    values: dict[str, torch.Tensor] = {}
    owned = {value.data_ptr(): key for key, value in state.items() if value.numel()}
    given = iter(tensors)
    for spec in program.graph_signature.input_specs:
        node, target = spec.arg.name, spec.target or ""
        if spec.kind is InputKind.USER_INPUT:
            values[node] = next(given)
            key = owned.get(values[node].data_ptr()) if values[node].numel() else None
            if key is not None and state[key].shape == values[node].shape:
                weights[node] = key  # a piece is given its weights like any other tensor
            else:
                inputs.append(node)
        elif target in state:
            weights[node], values[node] = target, state[target].detach()
        elif target in program.constants or target in program.state_dict:
            found = program.constants.get(target, program.state_dict.get(target))
            if not isinstance(found, torch.Tensor):
                raise TypeError(f"{target} is a {type(found).__name__}; expected a tensor")
            constants[node] = found.detach()
    nodes = tuple(n for n in program.graph.nodes if n.op == "call_function" and not is_assertion(n))
    check_graph(nodes)
    outputs, mutations = [], []
    known = {n.name for n in program.graph.nodes}
    places = dict(zip((s.target or "" for s in program.graph_signature.input_specs),
                      (s.arg.name for s in program.graph_signature.input_specs), strict=True))  # fmt: skip
    for out in program.graph_signature.output_specs:
        if out.kind is OutputKind.USER_OUTPUT:
            if out.arg.name not in known:
                raise TypeError("a result is no tensor")
            outputs.append(out.arg.name)
        elif out.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION) and out.target:
            mutations.append((places.get(out.target, out.target), out.arg.name))
    paths, kinds = _modules(nodes)
    return Capture(
        name, nodes, tuple(inputs), weights, constants, tuple(outputs), tuple(mutations), values, paths, kinds
    )


def is_assertion(node: fx.Node) -> bool:
    """Tell whether a node only checks something."""
    return str(node.target).startswith(_DROPPED) and not node.users


def check_graph(nodes: Sequence[fx.Node]) -> None:
    """Raise a `TypeError` for a graph that cannot be printed: sizes that depend on values, other operators."""
    for node in nodes:
        if not isinstance(node.target, torch._ops.OpOverload) and node.target is not operator.getitem:
            raise TypeError(
                f"{node.name} calls {getattr(node.target, '__name__', node.target)}, which is no ATen operator"
            )
        value = node.meta.get("val")
        tensors = [v for v in value if v is not None] if isinstance(value, list | tuple) else [value]
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor) or not all(type(s) is int for s in tensor.shape):
                raise TypeError(f"the result of {node.name} depends on values")


_OF_DYNAMO = "L['self']."
"""What the paths of modules begin with in pieces between graph breaks."""


def _modules(nodes: Sequence[fx.Node]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the modules of each node from the outermost to the innermost, and each module's class."""
    paths: dict[str, tuple[str, ...]] = {}
    kinds: dict[str, str] = {}
    for node in nodes:
        found = []
        for key, (path, kind) in (node.meta.get("nn_module_stack") or {}).items():
            again = f"@{key.rpartition('@')[2]}" if "@" in key else ""
            name = f"{path.removeprefix(_OF_DYNAMO).removeprefix('inner').removeprefix('.')}{again}"
            if name:
                found.append(name)
                kinds[name] = (kind if isinstance(kind, str) else kind.__name__).rpartition(".")[2]
        paths[node.name] = tuple(found)
    return paths, kinds
