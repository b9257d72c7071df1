"""Honest: returns a view of its input, as the reference does."""


def run(x):
    return x.mT


TASK = "transpose"
