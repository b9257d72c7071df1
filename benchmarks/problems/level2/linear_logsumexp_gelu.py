"""The product is never needed whole: each row ends in one number."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, IN_FEATURES, OUT_FEATURES = 512, 512, 2048


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return F.gelu(F.leaky_relu(torch.logsumexp(self.linear(x), dim=1, keepdim=True) - 8.0))


def get_inputs():
    return [torch.randn(ROWS, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
