"""A model's result ⇄ its tensors; what a call of a model does besides."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import torch
from torch import nn

from ._target import tensors_of


def set_by_call(parts: Sequence[nn.Module], before: Sequence[dict[str, Any]]) -> str:
    """Say which attribute of its parts a call has set, which a kernel would not."""
    for part, old in zip(parts, before, strict=True):
        for name, value in vars(part).items():
            if name not in old or old[name] is not value:
                return f"a call sets the attribute {name!r} of a {type(part).__name__}"
    return ""


def hooked(model: nn.Module) -> str:
    """Say that hooks of the model, which were judged as part of it, would be run on the kernel's result once more."""
    return "the model itself has forward hooks" if model._forward_hooks or model._forward_pre_hooks else ""


def emptied(result: Any) -> Any:
    """Return a result without the contents of its tensors."""
    if isinstance(result, torch.Tensor):
        return torch.empty(0)
    return rebuilt(result, iter([torch.empty(0) for _ in tensors_of(result)]))


def rebuilt(template: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Return a result like the template with these tensors in its places, in order."""
    if isinstance(template, torch.Tensor):
        return next(tensors)
    if dataclasses.is_dataclass(template) and isinstance(template, Mapping):
        return type(template)(**{k: rebuilt(v, tensors) for k, v in template.items()})
    if isinstance(template, Mapping):
        return type(template)({k: rebuilt(v, tensors) for k, v in template.items()})  # type: ignore[call-arg]  # of the mapping's own class
    if isinstance(template, tuple) and hasattr(template, "_fields"):
        return type(template)(*(rebuilt(v, tensors) for v in template))
    if isinstance(template, list | tuple):
        return type(template)(rebuilt(v, tensors) for v in template)
    if dataclasses.is_dataclass(template) and not isinstance(template, type):
        made = copy(template)  # not by its class, which may take other arguments
        for field in dataclasses.fields(template):
            object.__setattr__(made, field.name, rebuilt(getattr(template, field.name), tensors))
        return made
    return template
