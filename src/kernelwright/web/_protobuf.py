"""A writer of ONNX models, without the package that reads and checks them.

Source: onnx.proto3 of ONNX 1.17: the numbers of the fields that are written.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Attribute: TypeAlias = "int | float | str | Sequence[int]"
_FLOAT, _INT, _STRING, _INTS = 1, 2, 3, 7
_TYPES = {"float32": 1, "int64": 7}
_OPSET, _IR = 20, 9


@dataclass
class Model:
    """Nodes in order, with the constants that they name."""

    nodes: list[bytes] = field(default_factory=list)
    constants: dict[str, bytes] = field(default_factory=dict)

    def node(self, op: str, inputs: Sequence[str], output: str, **attributes: Attribute) -> str:
        """Add a node of one output and return the output's name."""
        text = [*(_text(1, name) for name in inputs), _text(2, output), _text(4, op)]
        text += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
        self.nodes.append(_bytes(1, b"".join(text)))
        return output

    def constant(self, name: str, value: NDArray[np.float32] | NDArray[np.int64]) -> str:
        """Add a tensor and return its name."""
        dims = b"".join(_number(1, size) for size in value.shape)
        kind = _number(2, _TYPES[value.dtype.name])
        self.constants[name] = _bytes(5, dims + kind + _text(8, name) + _bytes(9, value.tobytes()))
        return name

    def encoded(self, inputs: Mapping[str, Sequence[int]], outputs: Mapping[str, Sequence[int]]) -> bytes:
        """Return the model as a file's content; both are float32, by name and shape."""
        graph = [*self.nodes, _text(2, "graph"), *self.constants.values()]
        graph += [_described(11, name, shape) for name, shape in inputs.items()]
        graph += [_described(12, name, shape) for name, shape in outputs.items()]
        return _number(1, _IR) + _bytes(7, b"".join(graph)) + _bytes(8, _number(2, _OPSET))


def _attribute(name: str, value: Attribute) -> bytes:
    head = _text(1, name)
    if isinstance(value, str):
        return head + _text(4, value) + _number(20, _STRING)
    if isinstance(value, float):
        return head + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, _FLOAT)
    if isinstance(value, int):
        return head + _number(3, value) + _number(20, _INT)
    return head + b"".join(_number(8, one) for one in value) + _number(20, _INTS)


def _described(number: int, name: str, shape: Sequence[int]) -> bytes:
    dims = b"".join(_bytes(1, _number(1, size)) for size in shape)
    tensor = _number(1, _TYPES["float32"]) + _bytes(2, dims)
    return _bytes(number, _text(1, name) + _bytes(2, _bytes(1, tensor)))


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())
