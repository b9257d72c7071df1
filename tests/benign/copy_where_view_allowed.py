"""Honest: copies where the reference gives a view."""


def run(x):
    return x.transpose(-1, -2).contiguous()


TASK = "transpose"
