"""Graph → Program: which nodes of a captured reference become which kernels for the browser."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..errors import InputError
from ..tasks.capture import Argument, Graph, Node, Ref
from ._copies import Copies
from ._group import Emitter, Group, is_batch_norm
from ._program import Plain, Program, Role, Step
from ._rows import is_normalisation, is_pointwise, is_reduction, number, packet_of, reduced_axes
from ._windows import pair, pooled, window

VIEWS = {
    "view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "clone", "contiguous", "flatten", "alias", "detach",
    "dropout", "_to_copy", "lift_fresh_copy",
}  # fmt: skip
"""Operators that leave every element where it is."""
_ACTIVATIONS = {"relu", "gelu", "tanh", "sigmoid", "silu", "hardswish"}


def program_of(graph: Graph) -> Program:
    """Choose the kernels of a captured reference.

    Covers: float32; pointwise operators, reductions, softmax, layer, RMS and batch norm, products, convolutions,
    pooling, attention, and what moves data: permutes, slices, concatenations.
    Does not cover: other dtypes, and operators without a kernel, which are named.

    Args:
        graph: What the reference computes, with the sizes it is called with.

    Raises:
        InputError: an operator, a form of one, or a dtype has no kernel for the web.
    """
    return _Walk(graph).program


class _Walk:
    def __init__(self, graph: Graph) -> None:
        if graph.mutations:
            changed = ", ".join(name for name, _ in graph.mutations)
            raise InputError(f"the reference changes {changed}, which no kernel for the web does; try eval()")
        self.graph, self.program = graph, Program()
        self.copies = Copies(self.program)
        self.shapes: dict[str, Sequence[int]] = {n.name: n.shape for n in graph.nodes}
        self.place: dict[str, int] = {}
        self.turned: dict[str, str] = {}
        """Matrix → the one that it is the transpose of."""
        self.parts: dict[str, Node] = {}
        """Nodes of several results, whose parts are asked for by `getitem`."""
        self.done: set[str] = set()
        self.group: Group | None = None
        for node in graph.nodes:
            if node.name not in self.done:
                self._visit(node)
        self._close()
        for name in graph.outputs:
            self.program.outputs.append(self._tensor(name))

    def _visit(self, node: Node) -> None:
        name = packet_of(node)
        if node.op in ("input", "state", "constant"):
            self._external(node)
        elif node.op == "getitem":
            self._part(node)
        elif is_pointwise(node) or is_reduction(node) or is_normalisation(node) or is_batch_norm(node):
            self._float(node)
            self._fuse(node)
        elif name in VIEWS:
            self.place[node.name] = self._tensor(_name(node.args[0]))
        elif name in _KERNELS:
            _KERNELS[name](self, node)
        else:
            raise InputError(
                f"{node.op} has no kernel for the web; {', '.join(sorted(_KERNELS))} and rows have"
            )

    def _external(self, node: Node) -> None:
        if not self.graph.users(node.name) and node.name not in self.graph.outputs:
            return
        self._float(node)
        if node.op != "constant":
            role: Role = "input" if node.op == "input" else "state"
            self.place[node.name] = self.program.new(role, node.shape, node.name)
            return
        value = node.arguments().get("value")
        if value is None:
            raise InputError(f"the constant {node.name} of {node.elements} elements is too large for a page")
        values = value if isinstance(value, tuple) else (value,)
        self.place[node.name] = self.program.new(
            "constant", node.shape, node.name, [number(v) for v in values]
        )

    def _float(self, node: Node) -> None:
        if node.dtype not in ("float32", "tuple"):
            raise InputError(f"{node.name} is {node.dtype}; kernels for the web take float32")

    def _part(self, node: Node) -> None:
        source, index = _name(node.args[0]), node.args[1]
        whole = self.parts.get(source)
        if whole is not None:
            self._split(node, whole, int(str(index)))
        elif index != 0:
            raise InputError(f"{node.name} is result {index} of {source}, which no kernel for the web gives")
        elif self.group is not None and source in self.group.members:
            self.group.members[node.name] = self.group.members.pop(source)
            self.shapes[node.name] = node.shape
            self.group.terms[node.name] = self.group.terms[source]
            self._renamed(source, node.name)
        else:
            self.place[node.name] = self.place[source]

    def _renamed(self, old: str, new: str) -> None:
        """Let a group's member stand under the name of the part that is asked for."""
        assert self.group is not None
        self.group.members[new] = replace(self.group.members[new], name=new)
        self.done.add(old)

    def _tensor(self, name: str) -> int:
        """Return the number of the tensor that holds a node's value, and write it first where nothing does yet."""
        if self.group is not None and name in self.group.members:
            self._close()
        if name not in self.place and name in self.turned:
            source = self.turned[name]
            order = [*range(len(self.shapes[source]) - 2), -1, -2]
            self.place[name] = self._permuted(source, [i % len(self.shapes[source]) for i in order])
        return self.place[name]

    def _fuse(self, node: Node) -> None:
        for operand in node.refs():
            if self.group is None or operand not in self.group.members:
                self._tensor(operand)
        if self.group is not None and self.group.takes(node, self.shapes):
            return
        self._close()
        opened = Group.for_node(node, self.shapes)
        if not opened.takes(node, self.shapes):
            node = self._made_plain(node)
            opened = Group.for_node(node, self.shapes)
            if not opened.takes(node, self.shapes):
                raise InputError(f"{node.op} over these axes has no kernel for the web")
        self.group = opened

    def _made_plain(self, node: Node) -> Node:
        """Repeat the operands of a pointwise node to its shape, or bring reduced axes to the end."""
        if is_pointwise(node):
            for operand in dict.fromkeys(node.refs()):
                padded = [*[1] * (len(node.shape) - len(self.shapes[operand])), *self.shapes[operand]]
                self.place[operand] = self.copies.expanded(self._tensor(operand), padded, node.shape)
                self.shapes[operand] = node.shape
            return node
        if not is_reduction(node):
            return node
        first = _name(node.args[0])
        shape = self.shapes[first]
        axes = reduced_axes(node, shape)
        order = [*(a for a in range(len(shape)) if a not in axes), *axes]
        moved = f"{node.name}.moved"
        self.place[moved] = self._permuted(first, order)
        self.shapes[moved] = [shape[a] for a in order]
        last = tuple(range(len(shape) - len(axes), len(shape)))
        kept = tuple(shape[a] for a in order[: -len(axes)])
        return Node(node.name, node.op, (Ref(moved), last, False), (), kept, node.dtype)

    def _close(self) -> None:
        group, self.group = self.group, None
        if group is None:
            return
        kept = [
            name for name in group.members
            if name in self.graph.outputs or any(u.name not in group.members for u in self._users(name))
        ]  # fmt: skip
        if kept:
            emitter = Emitter(group, self.program, self.shapes, self.copies.expanded)
            self.place |= emitter.emit(self.place, kept, self.graph.outputs)

    def _users(self, name: str) -> Iterable[Node]:
        return (user for user in self.graph.users(name) if user.name not in self.done)

    # What moves data.

    def _permuted(self, name: str, order: Sequence[int]) -> int:
        return self.copies.permuted(self._tensor(name), self.shapes[name], order)

    def permute(self, node: Node) -> None:
        """Take a transpose of matrices as a note for products; copy any other order."""
        first, shape = _name(node.args[0]), self.shapes[_name(node.args[0])]
        given, ndim = node.arguments(), len(shape)
        if packet_of(node) == "permute":
            dims = given["dims"]
            assert isinstance(dims, tuple)
            order = [int(str(d)) % ndim for d in dims]
        elif packet_of(node) == "t":
            order = list(range(ndim))[::-1]
        else:
            order = list(range(ndim))
            one, two = int(str(given["dim0"])) % ndim, int(str(given["dim1"])) % ndim
            order[one], order[two] = order[two], order[one]
        if order == [*range(ndim - 2), ndim - 1, ndim - 2]:
            self._tensor(first)
            self.turned[node.name] = first
        else:
            self.place[node.name] = self._permuted(first, order)

    def expand(self, node: Node) -> None:
        """Repeat along axes of size one."""
        first = _name(node.args[0])
        shape = self.shapes[first]
        padded = [*[1] * (len(node.shape) - len(shape)), *shape]
        self.place[node.name] = self.copies.expanded(self._tensor(first), padded, node.shape)

    def slice(self, node: Node) -> None:
        """Copy a part of an axis."""
        given, first = node.arguments(), _name(node.args[0])
        shape = self.shapes[first]
        axis = int(str(given["dim"])) % len(shape)
        start = given.get("start", given.get("index")) or 0
        begin = int(str(start)) + (shape[axis] if int(str(start)) < 0 else 0)
        size = node.shape[axis] if packet_of(node) == "slice" else 1
        step = int(str(given.get("step", 1)))
        made = self.copies.piece(self._tensor(first), shape, axis, min(begin, shape[axis]), size, step)
        self.place[node.name] = made

    def split(self, node: Node) -> None:
        """Leave the copies to whoever asks for a part."""
        self._tensor(_name(node.args[0]))
        self.parts[node.name] = node

    def _split(self, node: Node, whole: Node, index: int) -> None:
        given, first = whole.arguments(), _name(whole.args[0])
        shape = self.shapes[first]
        axis, sizes = int(str(given["dim"])) % len(shape), given.get("split_size", given.get("split_sizes"))
        begin = (
            sum(int(str(s)) for s in sizes[:index]) if isinstance(sizes, tuple) else int(str(sizes)) * index
        )
        self.place[node.name] = self.copies.piece(self._tensor(first), shape, axis, begin, node.shape[axis])

    def cat(self, node: Node) -> None:
        """Copy each part to its place."""
        parts, ndim = node.args[0], len(node.shape)
        assert isinstance(parts, tuple)
        axis = int(str(node.arguments().get("dim", 0))) % ndim
        sources = [(self._tensor(_name(part)), self.shapes[_name(part)]) for part in parts]
        self.place[node.name] = self.copies.joined(sources, axis, node.shape)

    # What computes.

    def _finish(self, node: Node, kind: str, sizes: dict[str, Plain], inputs: Sequence[int]) -> None:
        """Add a step, with the activation that is its only reader."""
        act, last = self._activation(node)
        made = self.place[last.name] = self.program.new("between", node.shape)
        self.program.steps.append(Step(kind, {**sizes, "activation": act}, tuple(inputs), (made,)))

    def _activation(self, node: Node) -> tuple[str | None, Node]:
        users = list(self.graph.users(node.name))
        if node.name in self.graph.outputs or not users:
            return None, node
        if len(users) == 1 and packet_of(users[0]) in _ACTIVATIONS:
            name, tanh = packet_of(users[0]), users[0].arguments().get("approximate") == "tanh"
            self.done.add(users[0].name)
            return "gelu_tanh" if tanh else name, users[0]
        if len(users) == 2 and {packet_of(u) for u in users} == {"sigmoid", "mul"}:
            sigmoid, mul = sorted(users, key=lambda u: packet_of(u) != "sigmoid")
            if list(self.graph.users(sigmoid.name)) == [mul] and sigmoid.name in mul.refs():
                self.done |= {sigmoid.name, mul.name}
                return "silu", mul
        return None, node

    def product(self, node: Node) -> None:
        """Take mm, addmm and bmm; a transposed right factor is read as it lies."""
        given = node.arguments()
        left, right = (
            _name(given.get("mat1", given.get("self"))),
            _name(given.get("mat2", given.get("other"))),
        )
        if packet_of(node) == "addmm":
            bias = _name(given["self"])
            if given["beta"] != 1 or given["alpha"] != 1 or tuple(self.shapes[bias]) != (node.shape[-1],):
                raise InputError(
                    f"{node.op} with factors or a bias that is no vector has no kernel for the web"
                )
        transposed = right in self.turned and right not in self.place
        operands = [self._tensor(left), self._tensor(self.turned[right] if transposed else right)]
        operands += [self._tensor(bias)] if packet_of(node) == "addmm" else []
        *lead, m, n = node.shape
        constant = self.program.tensors[operands[1]].role in ("state", "constant")
        sizes: dict[str, Plain] = {
            "batch": math.prod(lead), "m": m, "k": self.shapes[left][-1], "n": n, "transposed": transposed,
            "biased": len(operands) > 2, "constant": constant,
        }  # fmt: skip
        self._finish(node, "matmul", sizes, operands)

    def convolution(self, node: Node) -> None:
        """Take one and two dimensions, with groups."""
        given, shape = node.arguments(), self.shapes[_name(node.args[0])]
        if given["transposed"] or len(shape) not in (3, 4):
            raise InputError(
                f"{node.op} transposed or in {len(shape) - 2} dimensions has no kernel for the web"
            )
        weight = self.shapes[_name(given["weight"])]
        inputs = [self._tensor(_name(given[n])) for n in ("input", "weight", "bias") if given[n] is not None]
        sizes = window(shape, weight[2:], given) | {
            "images": shape[0], "channels": shape[1], "filters": weight[0], "groups": int(str(given["groups"])),
            "biased": len(inputs) > 2,
        }  # fmt: skip
        self._finish(node, "conv", sizes, inputs)

    def pool(self, node: Node) -> None:
        """Take maximum and mean over windows."""
        given, shape = node.arguments(), self.shapes[_name(node.args[0])]
        padded = any(pair(given["padding"]))
        if (
            given["ceil_mode"]
            or (padded and not given.get("count_include_pad", True))
            or given.get("divisor_override")
        ):
            raise InputError(f"{node.op} with ceil_mode or a divisor of its own has no kernel for the web")
        kernel, settings = (
            pair(given["kernel_size"]),
            {**given, "stride": given["stride"] or given["kernel_size"]},
        )
        kind = "mean" if packet_of(node) == "avg_pool2d" else "max"
        sizes = window(shape, kernel, settings) | {"planes": math.prod(shape[:-2]), "pool": kind}
        source = self._tensor(_name(node.args[0]))
        made = self.place[node.name] = self.program.new("between", pooled(shape, kernel, settings))
        self.program.steps.append(Step("pool", sizes, (source,), (made,)))

    def attention(self, node: Node) -> None:
        """Take scaled dot-product attention, with a causal mask or one for all heads."""
        given = node.arguments()
        query, key, value = (_name(given[n]) for n in ("query", "key", "value"))
        *lead, queries, depth = self.shapes[query]
        keys, mask = self.shapes[key][-2], given.get("attn_mask")
        if list(self.shapes[key][:-2]) != lead or self.shapes[value][-1] != depth or mask is not None:
            raise InputError(f"{node.op} with a mask, or with fewer heads of keys, has no kernel for the web")
        operands = [self._tensor(n) for n in (query, key, value)]
        if given.get("is_causal"):
            rows = [[0.0 if j <= i else -math.inf for j in range(keys)] for i in range(queries)]
            operands.append(
                self.program.new("constant", (queries, keys), "mask", [v for row in rows for v in row])
            )
        scale = given.get("scale")
        sizes: dict[str, Plain] = {
            "heads": math.prod(lead), "queries": queries, "keys": keys, "depth": depth,
            "scale": 1 / math.sqrt(depth) if scale is None else number(scale), "masked": len(operands) > 3,
        }  # fmt: skip
        made = self.place[node.name] = self.program.new("between", node.shape)
        self.program.steps.append(Step("attention", sizes, tuple(operands), (made,)))


def _name(argument: Argument) -> str:
    if not isinstance(argument, Ref):
        raise InputError(f"{argument!r} stands where a kernel for the web needs a tensor")
    return argument.name


_KERNELS: dict[str, Callable[[_Walk, Node], None]] = {
    "mm": _Walk.product, "addmm": _Walk.product, "bmm": _Walk.product, "convolution": _Walk.convolution,
    "max_pool2d_with_indices": _Walk.pool, "max_pool2d": _Walk.pool, "avg_pool2d": _Walk.pool,
    "scaled_dot_product_attention": _Walk.attention, "permute": _Walk.permute, "transpose": _Walk.permute,
    "t": _Walk.permute, "expand": _Walk.expand, "slice": _Walk.slice, "select": _Walk.slice, "cat": _Walk.cat,
    "split": _Walk.split, "split_with_sizes": _Walk.split,
}  # fmt: skip
"""Operator → what writes its step."""
