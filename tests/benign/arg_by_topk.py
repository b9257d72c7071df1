"""Honest: finds the maximum by torch.argmax and gathers it."""


def run(x):
    index = x.argmax(-1)
    return x.gather(-1, index[..., None])[..., 0], index


TASK = "top"
