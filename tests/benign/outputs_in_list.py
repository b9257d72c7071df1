"""Honest: returns a list where the reference returns a tuple, and the variance as the moments' difference."""


def run(x):
    wide = x.double()
    mean = wide.mean(-1)
    squares = (wide * wide).sum(-1) - x.shape[-1] * mean * mean
    return [mean.float(), (squares / (x.shape[-1] - 1)).float()]


TASK = "moments"
