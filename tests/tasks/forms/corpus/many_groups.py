import torch
import torch.nn as nn


class Model(nn.Module):
    """A linear layer whose groups must shrink along with its width."""

    def __init__(self, in_features, out_features, num_groups):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(num_groups, out_features)

    def forward(self, x):
        return self.norm(self.linear(x)).mean(dim=1)


batch_size = 1024
in_features = 8192
out_features = 8192
num_groups = 512


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, num_groups]
