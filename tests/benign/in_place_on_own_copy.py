"""Honest: in-place operations, on its own copy."""


def run(x):
    return x.clone().clamp_(min=0)


TASK = "relu"
