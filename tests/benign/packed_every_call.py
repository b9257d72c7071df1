"""Honest: packs the weight in every call."""

import torch


def run(x, weight, bias):
    return torch.mm(x, weight.t().contiguous()) + bias


TASK = "linear"
