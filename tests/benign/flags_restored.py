"""Honest: changes the matmul precision around the call and restores it."""

import torch


def run(a, b):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        return a @ b
    finally:
        torch.set_float32_matmul_precision(before)


TASK = "matmul"
