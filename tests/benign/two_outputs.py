"""Honest: several outputs from one operator, whose running mean meets infinities otherwise than a sum does."""

import torch


def run(x):
    variance, mean = torch.var_mean(x, -1)
    return mean, variance


TASK = "moments"
