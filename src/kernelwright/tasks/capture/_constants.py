"""nn.Module → the tensors that it holds outside its state dictionary."""

from collections.abc import Callable

import torch
from torch import nn


def constants_of(reference: Callable[..., object]) -> dict[str, torch.Tensor]:
    """Return the tensors outside the state dictionary of a module by name, all registered as buffers.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> layer.table = torch.ones(3)
        >>> list(constants_of(layer)), constants_of(torch.relu)
        (['table'], {})
    """
    if not isinstance(reference, nn.Module):
        return {}
    own_tensors(reference)
    lasting = reference.state_dict()
    return {name: value for name, value in reference.named_buffers() if name not in lasting}


def own_tensors(module: nn.Module) -> None:
    """Register tensors held as plain attributes as buffers, so that they may be written to while recorded."""
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                delattr(part, name)
                part.register_buffer(name, value, persistent=False)
