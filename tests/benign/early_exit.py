"""Honest: returns early where nothing is negative, which is right."""

import torch


def run(x):
    if x.numel() and x.amin() >= 0:
        return x.clone()
    return torch.clamp(x, min=0)


TASK = "relu"
