"""Honest: channels-last strides, as the reference gives."""

import torch


def run(x):
    return x.contiguous(memory_format=torch.channels_last).clamp(min=0)


TASK = "channels_last"
