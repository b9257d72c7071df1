"""Honest: finds the first maximum another way."""


def run(x):
    value = x.amax(-1)
    hit = (x == value[..., None]) | (x.isnan() & value.isnan()[..., None])
    return value, hit.int().argmax(-1)


TASK = "top"
