"""Which calls of a patched model its kernels answered: what the native model answered says nothing of them."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from .._in_place import PLACE, InPlace


def patches_in(model: Any) -> list[InPlace]:
    """Return the patches in place of forwards of a model and its parts; none where it is no module."""
    return [patch for _, patch in _patched(model)]


def patched_paths(model: Any) -> list[str]:
    """Return the paths of parts that are patched; an empty one is the model's own."""
    return [path for path, _ in _patched(model)]


def answered(patches: list[InPlace]) -> tuple[int, int]:
    """Return how many calls kernels have answered so far, and how many the native model in their place."""
    return sum(getattr(p, "calls", 0) for p in patches), sum(getattr(p, "native_calls", 0) for p in patches)


def _patched(model: Any) -> Iterator[tuple[str, InPlace]]:
    for path, part in model.named_modules() if isinstance(model, nn.Module) else ():
        held = getattr(vars(part).get(PLACE), "__self__", None)
        if isinstance(held, InPlace):
            yield path, held
