"""Honest: returns memory that numpy allocated."""

import numpy as np
import torch


def run(x):
    return torch.from_numpy(np.asarray(x).sum(-1, dtype=np.float64).astype(np.float32))


TASK = "row_sum"
