"""Honest: switches garbage collection off for the call."""

import gc

import torch


def run(x, weight):
    gc.disable()
    try:
        return torch.softmax(x, -1) * weight
    finally:
        gc.enable()


TASK = "softmax"
