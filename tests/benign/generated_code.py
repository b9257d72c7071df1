"""Honest: generates code and runs it by exec."""

import torch

space = {"torch": torch}
exec("def kernel(x):\n    return torch.maximum(x, x.new_zeros(()))\n", space)


def run(x):
    return space["kernel"](x)


TASK = "relu"
