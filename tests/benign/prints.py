"""Honest: prints something in every call."""

import torch


def run(x):
    print("relu", tuple(x.shape))
    return torch.relu(x)


TASK = "relu"
