"""Honest: raises a warning in every call."""

import warnings

import torch


def run(x):
    warnings.warn("this kernel is experimental", stacklevel=1)
    return torch.relu(x)


TASK = "relu"
