"""A made-up checkout of BackendBench with a recording of calls, in the form of its text files."""

from .backendbench import FILES as _FILES

_CALLS = """Operator: aten.add.Tensor
cnt: 2, ((T([16, 64], f16), 1.5), {})
cnt: 9, ((T([16, 64], f32), T([64], f32)), {'alpha': 2})
cnt: 3, ((T([2048, 2048], f32), T([2048], f32)), {'alpha': 2})
Operator: aten.bmm.default
cnt: 1, ((T([4, 8, 16], f32, stride=(128, 1, 8)), T([4, 16, 8], f32)), {})
Operator: aten.embedding.default
cnt: 1, ((T([8, 4], f32), T([2], i64)), {})
"""
FILES = _FILES | {"traces/made_up.txt": _CALLS}
