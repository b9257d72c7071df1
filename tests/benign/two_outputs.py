"""Honest: several outputs from one function."""


def run(x):
    return x.mean(-1), x.var(-1)


TASK = "moments"
