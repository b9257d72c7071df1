"""Honest: functools cache over shapes."""

import functools

import torch


@functools.cache
def ones(n):
    return torch.ones(n, dtype=torch.float64)


def run(x):
    return (x.double() @ ones(x.shape[-1])).float()


TASK = "row_sum"
