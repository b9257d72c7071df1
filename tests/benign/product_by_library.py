"""Honest where libraries are allowed: torch's product, and nothing else."""

import torch

TASK = "matmul"
RULE = "library-allowed"


def run(a, b):
    return torch.mm(a, b)
