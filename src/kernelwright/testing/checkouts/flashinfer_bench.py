"""A made-up data set of FlashInfer-Bench."""

DEFINITION = """{"name": "scale_n64", "op_type": "scale",
 "axes": {"rows": {"type": "var"}, "n": {"type": "const", "value": 64}},
 "inputs": {"x": {"shape": ["rows", "n"], "dtype": "float32"}, "w": {"shape": ["n"], "dtype": "float32"}},
 "outputs": {"y": {"shape": ["rows", "n"], "dtype": "float32"}},
 "reference": "import torch\\n\\ndef run(x, w):\\n    return torch.softmax(x, 1) * w\\n"}
"""
_SEEN = """{"definition": "scale_n64", "workload": {"uuid": "a", "axes": {"rows": 4}, "inputs": {}}}
{"definition": "scale_n64", "workload": {"uuid": "b", "axes": {"rows": 32}, "inputs": {}}}
"""
FILES = {
    "definitions/scale/scale_n64.json": DEFINITION,
    "workloads/scale/scale_n64.jsonl": _SEEN,
}
