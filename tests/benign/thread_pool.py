"""Honest: keeps an idle pool of threads between calls."""

from concurrent.futures import ThreadPoolExecutor

import torch

pool = ThreadPoolExecutor(2)


def run(x):
    parts = list(pool.map(lambda part: part.sum(-1), x.chunk(2, 0)))
    return torch.cat(parts)


TASK = "row_sum"
