"""Honest: sums from the other end."""


def run(x):
    return x.flip(-1).cumsum(-1)[..., -1].contiguous() if x.shape[-1] else x.sum(-1)


TASK = "row_sum"
