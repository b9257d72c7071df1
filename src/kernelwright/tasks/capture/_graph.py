"""The graph of a reference: the ATen ops it runs on one workload, and the data flow between them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import torch

Value: TypeAlias = bool | int | float | complex | str | None
Argument: TypeAlias = "Ref | Value | tuple[Argument, ...]"


@dataclass(frozen=True)
class Ref:
    """A node's result, used as an argument."""

    name: str
    """Name of the node."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Node:
    """One operation, or an external tensor."""

    name: str
    """Unique in its graph; inputs have the argument's name, state its key in the state dictionary."""
    op: str
    """`input`, `state`, `constant`, `getitem` (one result of several) or an overload: `aten.add.Tensor`."""
    args: tuple[Argument, ...] = ()
    """Positional arguments. Dtypes, devices, layouts and memory formats are strings without `torch.`."""
    kwargs: tuple[tuple[str, Argument], ...] = ()
    """Keyword arguments by name. A constant of at most 4,096 elements has its `value` here, flattened,
    a larger one, up to 16 MiB and 1 MiB compressed, what makes it, as text, under `packed` (`_packed.py`)."""
    shape: tuple[int, ...] = ()
    """Sizes of the result; `()` if there are several."""
    dtype: str = "tuple"
    """Torch's name without the prefix; `tuple` if there are several results."""

    @property
    def elements(self) -> int:
        """Count the elements of the result."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def size_bytes(self) -> int:
        """Bytes of the result, contiguous; 0 if there are several results."""
        return 0 if self.dtype == "tuple" else self.elements * getattr(torch, self.dtype).itemsize

    def refs(self) -> Iterator[str]:
        """Yield the names of the nodes it reads, in order, repeated where used twice."""
        for argument in (*self.args, *(value for _, value in self.kwargs)):
            yield from _refs(argument)

    def arguments(self) -> dict[str, Argument]:
        """Return every argument of the op's schema by name, defaults filled in.

        Example:
            >>> node = Node("s", "aten.sum.dim_IntList", (Ref("x"), (-1,)), (), (4,), "float32")
            >>> node.arguments()["keepdim"]
            False
        """
        if not self.op.startswith("aten."):
            return dict(self.kwargs)
        _, packet, overload = self.op.split(".")
        schema = getattr(getattr(torch.ops.aten, packet), overload)._schema
        given = dict(zip((a.name for a in schema.arguments), self.args, strict=False)) | dict(self.kwargs)
        return {a.name: given.get(a.name, plain(a.default_value)) for a in schema.arguments}

    def __str__(self) -> str:
        call = ", ".join([*map(_text, self.args), *(f"{k}={_text(v)}" for k, v in self.kwargs)])
        tail = f"{self.op}({call})" if self.args or self.kwargs else self.op
        return f"{self.name}: {self.dtype}{list(self.shape)} = {tail}"


@dataclass(frozen=True)
class Graph:
    """A reference on one workload: nodes in topological order, functional, without dead code.

    Example:
        >>> x = Node("x", "input", shape=(2, 3), dtype="float32")
        >>> y = Node("softmax", "aten._softmax.default", (Ref("x"), -1, False), (), (2, 3), "float32")
        >>> print(Graph((x, y), ("x",), (), ("softmax",), "export"))
        x: float32[2, 3] = input
        softmax: float32[2, 3] = aten._softmax.default(x, -1, False)
        return softmax
    """

    nodes: tuple[Node, ...]
    """Every input and state tensor first, then the ops that an output needs."""
    inputs: tuple[str | None, ...]
    """Nodes of the task's arguments, in order; none for a scalar, which appears in the ops as a literal."""
    state: tuple[str, ...]
    """Nodes of the task's state, in order."""
    outputs: tuple[str, ...]
    """Nodes of the flattened results; an output may be an input itself."""
    how: Literal["export", "dispatch", "trace"]
    """`export`: through torch.export; `trace`: recorded while it ran on fake tensors; `dispatch`: recorded while
    it ran on values, so it is valid for the branches that those values took."""
    mutations: tuple[tuple[str, str], ...] = ()
    """Inputs and state that the reference changes, each with the node of its new value."""

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _users(self) -> dict[str, tuple[Node, ...]]:
        users: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.refs()):
                users.setdefault(name, []).append(node)
        return {name: tuple(found) for name, found in users.items()}

    def node(self, name: str) -> Node:
        """Return the node of that name; raises `KeyError` if there is none."""
        return self._by_name[name]

    def users(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read the result of `name`, each once, in order."""
        return self._users.get(name, ())

    @property
    def ops(self) -> tuple[Node, ...]:
        """The nodes that compute: neither inputs, state, constants nor `getitem`."""
        return tuple(n for n in self.nodes if n.op not in ("input", "state", "constant", "getitem"))

    def signature(self) -> str:
        """Return a signature of the computation without sizes: ops in order and their operands, no literals.

        Two workloads of one task have the same signature, unless sizes change what is run.

        Example:
            >>> x = Node("x", "input", shape=(2, 3), dtype="float32")
            >>> y = Node("y", "aten.exp.default", (Ref("x"),), (), (2, 3), "float32")
            >>> Graph((x, y), ("x",), (), ("y",), "export").signature()
            '0=input;1=aten.exp.default(0);return 1'
        """
        number = {node.name: str(i) for i, node in enumerate(self.nodes)}
        lines = []
        for node in self.nodes:
            refs = [number[name] for name in node.refs()]
            if node.op == "getitem":
                refs.append(str(node.args[1]))
            lines.append(f"{number[node.name]}={node.op}" + (f"({','.join(refs)})" if refs else ""))
        mutations = [f"{number[old]}<-{number[new]}" for old, new in self.mutations]
        return ";".join([*lines, *mutations, "return " + ",".join(number[name] for name in self.outputs)])

    def __str__(self) -> str:
        mutations = [f"{old} <- {new}" for old, new in self.mutations]
        return "\n".join([*map(str, self.nodes), *mutations, "return " + ", ".join(self.outputs)])


def plain(value: object) -> Argument:
    """Convert torch's graph arguments into literals and tuples."""
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return str(value)
    if value is None or isinstance(value, bool | int | float | complex | str | Ref):
        return value
    raise TypeError(f"{value!r} is a {type(value).__name__}; expected a literal or a tensor of the graph")


def _refs(argument: Argument) -> Iterator[str]:
    if isinstance(argument, Ref):
        yield argument.name
    elif isinstance(argument, tuple):
        for item in argument:
            yield from _refs(item)


def _text(argument: Argument) -> str:
    if isinstance(argument, tuple):
        return "[" + ", ".join(map(_text, argument)) + "]"
    return repr(argument) if isinstance(argument, str) else str(argument)
