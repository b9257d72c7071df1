"""A made-up checkout of Meta's tritonbench."""

_LOADED = """# made up
aten.add.Tensor: made_train/up_training.txt
aten.bmm.default: made_train/up_training.txt
"""
_CALLS = """Operator: aten.add.Tensor
cnt: 2, ((T([16, 64], f32), 1.5), {})
cnt: 9, ((T([16, 64], f32), T([64], f32)), {'alpha': 2})
Operator: aten.bmm.default
cnt: 1, ((T([4, 8, 16], f32, stride=(128, 1, 8)), T([4, 16, 8], f32)), {})
"""
FILES = {
    "tritonbench/operator_loader/aten/config.yaml": _LOADED,
    "tritonbench/data/input_configs/made_train/up_training.txt": _CALLS,
}
