"""Honest: returns early on empty inputs."""

import torch


def run(x, weight):
    if x.numel() == 0:
        return torch.empty_like(x)
    return torch.softmax(x, -1) * weight


TASK = "softmax"
