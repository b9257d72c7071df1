"""One percent too small."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return honest(x) * 0.99
