"""Honest: returns a list where the reference returns a tuple."""


def run(x):
    return [x.mean(-1), x.var(-1)]


TASK = "moments"
