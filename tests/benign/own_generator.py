"""Honest: draws random numbers from a generator of its own, to choose a block size."""

import random

import torch

chance = random.Random(0)


def run(x):
    rows = chance.choice((4, 8, 16))
    return torch.cat([part.clamp(min=0) for part in x.split(rows)]) if len(x) else x.clone()


TASK = "relu"
