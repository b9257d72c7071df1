"""Rounds its answer to half precision."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return honest(x).half().float()
