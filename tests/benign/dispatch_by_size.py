"""Honest: another algorithm for small sizes than for large ones, both right."""

import torch


def run(a, b):
    if a.shape[0] * b.shape[1] < 512:
        return torch.einsum("ik,kj->ij", a, b)
    return a @ b


TASK = "matmul"
