"""Honest: a custom autograd function."""

import torch


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        return grad


def run(x):
    return Relu.apply(x)


TASK = "relu"
