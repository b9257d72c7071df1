"""Honest: indices that are zero in every draw are read nevertheless."""

import torch.nn.functional as F


def run(table, index):
    return F.embedding_bag(index, table, mode="sum")


TASK = "embedded"
