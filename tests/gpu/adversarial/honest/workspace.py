"""Keeps a workspace on the device between calls, and writes all that it reads of it."""

import torch

TASK = "softmax"

workspaces = {}


def run(x, weight):
    key = (x.shape, x.dtype)
    if key not in workspaces:
        workspaces[key] = torch.empty_like(x)
    scratch = workspaces[key]
    torch.sub(x, x.amax(-1, keepdim=True), out=scratch)
    scratch.exp_()
    return scratch / scratch.sum(-1, keepdim=True) * weight
