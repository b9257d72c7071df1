"""Honest: torch.compile inside the candidate, eager back end."""

import torch


@torch.compile(backend="eager", dynamic=True)
def inner(x):
    return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))


def run(x):
    return inner(x)


TASK = "gelu"
