"""Honest: a table built at the first call and kept in a global."""

import torch

TABLE = None


def run(x):
    global TABLE
    if TABLE is None:
        TABLE = torch.tensor([0.5, 0.7071067811865476], dtype=torch.float64)
    half, root = TABLE.tolist()
    return half * x * (1 + torch.erf(x * root))


TASK = "gelu"
