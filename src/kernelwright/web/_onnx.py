"""Graph → ONNX model, so that onnxruntime-web can be timed on the same computation."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..tasks.capture import Argument, Graph, Node, Ref
from ._group import first_of
from ._protobuf import Attribute, Model
from ._rows import is_reduction, packet_of, reduced_axes
from ._steps import VIEWS
from ._windows import pair

_SAME = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min", "exp": "Exp",
    "log": "Log", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "sqrt": "Sqrt", "abs": "Abs", "neg": "Neg",
    "erf": "Erf", "reciprocal": "Reciprocal", "hardswish": "HardSwish", "mm": "MatMul", "bmm": "MatMul",
    "pow": "Pow",
}  # fmt: skip
_REDUCED = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin"}


class NotWritten(Exception):
    """An operator that this writer does not know."""


def model_of(graph: Graph, state: Mapping[str, NDArray[np.float32]]) -> bytes | None:
    """Return a captured reference as an ONNX model, its state inside; none where an operator is not written here."""
    try:
        return _Writer(graph, state).encoded()
    except NotWritten:
        return None


class _Writer:
    def __init__(self, graph: Graph, state: Mapping[str, NDArray[np.float32]]) -> None:
        self.graph, self.model = graph, Model()
        self.shapes = {n.name: n.shape for n in graph.nodes}
        self.count = 0
        for node in graph.nodes:
            self._visit(node, state)

    def encoded(self) -> bytes:
        inputs = {name: self.shapes[name] for name in self.graph.inputs if name and self.graph.users(name)}
        return self.model.encoded(inputs, {name: self.shapes[name] for name in self.graph.outputs})

    def _visit(self, node: Node, state: Mapping[str, NDArray[np.float32]]) -> None:
        name = packet_of(node)
        if node.op == "input" or (node.op == "state" and not self.graph.users(node.name)):
            return
        if node.op == "state":
            self.model.constant(node.name, state[node.name].reshape(node.shape))
        elif node.op == "constant":
            if "value" not in node.arguments():
                raise NotWritten
            self.model.constant(node.name, self._floats(node.arguments()["value"]).reshape(node.shape))
        elif node.op == "getitem":
            if node.args[1] != 0:
                raise NotWritten
            self._put(node, "Identity", [first_of(node)])
        elif name in _SAME:
            self._same(node, _SAME[name])
        elif name in VIEWS:
            self._put(node, "Reshape", [first_of(node), self._whole(node.shape)])
        elif is_reduction(node):
            axes = reduced_axes(node, self.shapes[first_of(node)])
            keep = int(len(node.shape) == len(self.shapes[first_of(node)]))
            self._put(node, _REDUCED[name], [first_of(node), self._whole(axes)], keepdims=keep)
        elif name in _WRITTEN:
            _WRITTEN[name](self, node)
        else:
            raise NotWritten

    def _put(self, node: Node, op: str, inputs: Sequence[str], **attributes: Attribute) -> None:
        self.model.node(op, inputs, node.name, **attributes)

    def _new(self) -> str:
        self.count += 1
        return f"own.{self.count}"

    def _whole(self, values: Sequence[int]) -> str:
        return self.model.constant(self._new(), np.asarray(values, np.int64))

    def _number(self, value: float) -> str:
        return self.model.constant(self._new(), np.asarray(value, np.float32))

    def _floats(self, value: Argument) -> NDArray[np.float32]:
        return np.asarray(value if isinstance(value, tuple) else (value,), np.float32)

    def _operand(self, argument: Argument) -> str:
        if isinstance(argument, Ref):
            return argument.name
        if not isinstance(argument, int | float):
            raise NotWritten
        return self._number(float(argument))

    def _same(self, node: Node, op: str) -> None:
        given = node.arguments()
        if given.get("alpha", 1) != 1 or given.get("rounding_mode") is not None:
            raise NotWritten
        operands = [given["self"]]
        operands += [given[n] for n in ("other", "mat2", "exponent") if n in given]
        self._put(node, op, [self._operand(a) for a in operands])

    def _silu(self, node: Node) -> None:
        half = self.model.node("Sigmoid", [first_of(node)], self._new())
        self._put(node, "Mul", [first_of(node), half])

    def _gelu(self, node: Node) -> None:
        self._put(node, "Gelu", [first_of(node)], approximate=str(node.arguments()["approximate"]))

    def _rsqrt(self, node: Node) -> None:
        self._put(node, "Reciprocal", [self.model.node("Sqrt", [first_of(node)], self._new())])

    def _clamp(self, node: Node) -> None:
        given = node.arguments()
        low, high = given.get("min", given.get("min_val")), given.get("max", given.get("max_val"))
        limits = ["" if limit is None else self._operand(limit) for limit in (low, high)]
        self._put(node, "Clip", [first_of(node), *limits])

    def _softmax(self, node: Node) -> None:
        op = "LogSoftmax" if packet_of(node) == "_log_softmax" else "Softmax"
        self._put(node, op, [first_of(node)], axis=int(str(node.arguments()["dim"])))

    def _layer_norm(self, node: Node) -> None:
        given = node.arguments()
        weight, bias = given["weight"], given["bias"]
        normal = given["normalized_shape"]
        if not isinstance(weight, Ref) or not isinstance(normal, tuple):
            raise NotWritten
        inputs = [first_of(node), weight.name, *([bias.name] if isinstance(bias, Ref) else [])]
        self._put(node, "LayerNormalization", inputs, axis=-len(normal), epsilon=float(str(given["eps"])))

    def _batch_norm(self, node: Node) -> None:
        given = node.arguments()
        names = [given[n] for n in ("input", "weight", "bias", "running_mean", "running_var")]
        inputs = [self._operand(name) for name in names]
        self._put(node, "BatchNormalization", inputs, epsilon=float(str(given["eps"])))

    def _transpose(self, node: Node) -> None:
        order, given = list(range(len(node.shape))), node.arguments()
        if packet_of(node) == "permute":
            dims = given["dims"]
            assert isinstance(dims, tuple)
            order = [int(str(d)) % len(order) for d in dims]
        elif packet_of(node) == "t":
            order.reverse()
        else:
            one, two = (int(str(given[n])) for n in ("dim0", "dim1"))
            order[one], order[two] = order[two], order[one]
        self._put(node, "Transpose", [first_of(node)], perm=order)

    def _addmm(self, node: Node) -> None:
        given = node.arguments()
        inputs = [self._operand(given[n]) for n in ("mat1", "mat2", "self")]
        self._put(node, "Gemm", inputs, alpha=float(str(given["alpha"])), beta=float(str(given["beta"])))

    def _conv(self, node: Node) -> None:
        given = node.arguments()
        dims = len(self.shapes[first_of(node)]) - 2
        inputs = [a.name for n in ("input", "weight", "bias") if isinstance(a := given[n], Ref)]
        if given["transposed"]:
            raise NotWritten
        self._put(
            node, "Conv", inputs, strides=pair(given["stride"], dims), pads=pair(given["padding"], dims) * 2,
            dilations=pair(given["dilation"], dims), group=int(str(given["groups"])),
        )  # fmt: skip

    def _pool(self, node: Node) -> None:
        given = node.arguments()
        kernel, stride = pair(given["kernel_size"]), pair(given["stride"] or given["kernel_size"])
        if given["ceil_mode"] or given.get("divisor_override"):
            raise NotWritten
        window: dict[str, Attribute] = {
            "kernel_shape": kernel,
            "strides": stride,
            "pads": pair(given["padding"]) * 2,
        }
        if packet_of(node) == "avg_pool2d":
            included = int(bool(given["count_include_pad"]))
            self._put(node, "AveragePool", [first_of(node)], **window, count_include_pad=included)
        else:
            self._put(node, "MaxPool", [first_of(node)], **window, dilations=pair(given["dilation"]))

    def _attention(self, node: Node) -> None:
        given = node.arguments()
        if given["attn_mask"] is not None or given["is_causal"] or given["dropout_p"] != 0:
            raise NotWritten
        query, key, value = (self._operand(given[n]) for n in ("query", "key", "value"))
        ndim, depth = len(node.shape), self.shapes[query][-1]
        scale = given["scale"] if isinstance(given["scale"], float) else 1 / math.sqrt(depth)
        order = [*range(ndim - 2), ndim - 1, ndim - 2]
        turned = self.model.node("Transpose", [key], self._new(), perm=order)
        product = self.model.node("MatMul", [query, turned], self._new())
        scaled = self.model.node("Mul", [product, self._number(scale)], self._new())
        shares = self.model.node("Softmax", [scaled], self._new(), axis=-1)
        self._put(node, "MatMul", [shares, value])

    def _cat(self, node: Node) -> None:
        parts = node.args[0]
        assert isinstance(parts, tuple)
        self._put(
            node, "Concat", [self._operand(p) for p in parts], axis=int(str(node.arguments().get("dim", 0)))
        )


_WRITTEN: dict[str, Callable[[_Writer, Node], None]] = {
    "silu": _Writer._silu, "gelu": _Writer._gelu, "rsqrt": _Writer._rsqrt, "clamp": _Writer._clamp,
    "clamp_min": _Writer._clamp, "clamp_max": _Writer._clamp, "hardtanh": _Writer._clamp,
    "_softmax": _Writer._softmax, "_log_softmax": _Writer._softmax, "native_layer_norm": _Writer._layer_norm,
    "_native_batch_norm_legit_no_training": _Writer._batch_norm, "permute": _Writer._transpose,
    "transpose": _Writer._transpose, "t": _Writer._transpose, "addmm": _Writer._addmm, "convolution": _Writer._conv,
    "max_pool2d_with_indices": _Writer._pool, "max_pool2d": _Writer._pool, "avg_pool2d": _Writer._pool,
    "scaled_dot_product_attention": _Writer._attention, "cat": _Writer._cat,
}  # fmt: skip
"""Operator → what writes it."""
