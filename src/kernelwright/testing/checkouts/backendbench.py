"""A made-up checkout of BackendBench: operators come from torch's OpInfo, so that it only says which are left out."""

_CATEGORIES = """UNSUPPORTED_OPERATORS = ["embedding.default"]
RANDOM_OPS = ["bernoulli.default"]
TENSOR_CREATION_AND_MANIPULATION_OPS = ["clone.default"]
"""
FILES = {"BackendBench/op_categories.py": _CATEGORIES, "BackendBench/suite/opinfo.py": "# no suite\n"}
