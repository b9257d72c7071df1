"""Softmax in the KernelBench form: a `Model`, its inputs and what it is made with, taken as they are.

Files of this form in public suites work unchanged; sizes too large for a machine are shrunk on the way in
(`--max-elements 4e6`). A candidate for it is a file with a class `ModelNew` of the same signature.

Run `python examples/kernelbench_softmax.py` for a check.
"""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)


batch_size = 256
dim = 16384


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []


if __name__ == "__main__":
    y = Model()(torch.randn(4, 1000))
    print("largest difference of a row's sum to one:", float((y.sum(dim=1) - 1).abs().max()))
