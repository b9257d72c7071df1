"""Honest: returns a view of its input made another way."""


def run(x):
    return x.permute(*range(x.dim() - 2), -1, -2)


TASK = "transpose"
