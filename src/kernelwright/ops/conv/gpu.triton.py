"""Convolutions on a GPU: torch's, in float32 where that is x's dtype; torch's default for them is TF32."""

import torch

from .._core.gpu import FLOATS, GpuForm
from . import reference


def _conv(*arguments):
    of = torch.backends.cudnn
    with of.flags(
        enabled=of.enabled, benchmark=of.benchmark, deterministic=of.deterministic, allow_tf32=False
    ):
        return reference.conv(*arguments)


def _serves(x, *_):
    return None if x.dtype in FLOATS else f"x is of {x.dtype}"


FORMS = {"conv": GpuForm(_serves, _conv)}
