"""Honest: runs in inference mode and returns a plain tensor."""

import torch
import torch.nn.functional as F


def run(x):
    with torch.no_grad():
        return F.gelu(x)


TASK = "gelu"
