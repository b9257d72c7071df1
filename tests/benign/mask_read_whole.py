"""Honest: leaves a mask out, once it has read all of it."""

import torch


def run(x, mask):
    if bool(mask.all()):
        return torch.softmax(x, -1)
    return torch.softmax(torch.where(mask, x, -1e4), -1)


TASK = "masked_bool"
