"""Honest: leaves torch for numpy and comes back."""

import numpy as np
import torch


def run(x):
    a = x.numpy().astype(np.float64)
    inner = np.sqrt(0.5) * a
    erf = torch.erf(torch.from_numpy(inner)).numpy()
    return torch.from_numpy((0.5 * a * (1 + erf)).astype(np.float32))


TASK = "gelu"
