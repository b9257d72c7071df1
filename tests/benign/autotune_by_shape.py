"""Honest: times two variants at the first call of a shape and remembers which is faster."""

import time

best = {}


def blocked(x):
    return sum(part.sum(-1) for part in x.split(32, -1)) if x.shape[-1] else x.sum(-1)


def plain(x):
    return x.sum(-1)


def run(x):
    key = tuple(x.shape)
    if key not in best:
        spent = []
        for variant in (plain, blocked):
            start = time.perf_counter()
            variant(x)
            spent.append(time.perf_counter() - start)
        best[key] = (plain, blocked)[spent[1] < spent[0]]
    return best[key](x)


TASK = "row_sum"
