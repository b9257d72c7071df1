"""Honest: registers an operator with torch.library."""

import torch


@torch.library.custom_op("benign::relu", mutates_args=())
def relu(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(min=0)


def run(x):
    return relu(x)


TASK = "relu"
