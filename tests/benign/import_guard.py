"""Honest: try/except around an import with a fallback."""

import torch

try:
    import a_package_that_is_not_there as fast
except ImportError:
    fast = None


def run(x, weight):
    soft = torch.softmax if fast is None else fast.softmax
    return soft(x, dim=-1) * weight


TASK = "softmax"
