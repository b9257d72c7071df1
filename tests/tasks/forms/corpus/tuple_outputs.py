import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        values, indices = torch.topk(x, 8, dim=-1)
        return values, {"indices": indices, "mean": x.mean(-1)}


def get_inputs():
    return [torch.randn(4096, 8192)]
