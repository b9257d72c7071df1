"""Honest: calls torch.set_num_threads and restores it."""

import torch


def run(x, weight):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return torch.softmax(x, -1) * weight
    finally:
        torch.set_num_threads(before)


TASK = "softmax"
