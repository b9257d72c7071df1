"""Honest: reads environment variables."""

import os

import torch.nn.functional as F

BLOCK = int(os.environ.get("MY_BLOCK", "0"))


def run(x):
    return F.gelu(x) if not BLOCK else F.gelu(x.clone())


TASK = "gelu"
