"""Honest: starts threads inside the call and joins them."""

import threading

import torch


def run(x):
    out = torch.empty(x.shape, dtype=x.dtype)
    half = x.shape[0] // 2
    parts = ((slice(None, half),), (slice(half, None),))
    threads = [threading.Thread(target=lambda p=p: out[p].copy_(x[p].clamp(min=0))) for p in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


TASK = "relu"
