"""How errors grow from layer to layer."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ...records import Record


class LayerError(Record):
    """The error of one submodule's output against float64, relative to the output's root mean square."""

    path: str
    """Path of the submodule."""
    native: float
    """Of the native model."""
    changed: float
    """Of the changed model; nan where it gives no such output, as in a patched part, whose kernels show no layers."""


def layer_errors(
    native: Any,
    changed: Any,
    exact: Callable[[Callable[[Any], Any]], Any],
    use: Callable[[Any], object],
    patched: Sequence[str] = (),
) -> tuple[LayerError, ...]:
    """Compare the outputs of submodules, in the order in which the native model runs them.

    Args:
        native: The native model; no module has no layers.
        changed: The changed model.
        exact: Calls a function with the native model in float64.
        use: Runs a model.
        patched: Paths of parts of the changed model that are patched.
    """
    if not isinstance(native, nn.Module) or not isinstance(changed, nn.Module):
        return ()
    paths = _paths(native)
    truth: dict[str, Tensor] = exact(lambda wide: _outputs(wide, paths, use))
    ours = _outputs(native, paths, use)
    inside = tuple(f"{path}." if path else "" for path in patched)
    theirs = _outputs(changed, [path for path in paths if not path.startswith(inside)], use)
    return tuple(
        LayerError(path=path, native=_error(ours.get(path), y), changed=_error(theirs.get(path), y))
        for path, y in truth.items()
    )


def _paths(model: nn.Module) -> list[str]:
    """Name the direct submodules, those of lists in their place."""
    found: list[str] = []
    for name, child in model.named_children():
        listed = isinstance(child, nn.ModuleList | nn.Sequential)
        inner = _paths(child) if listed else []
        found += [f"{name}.{path}" for path in inner] if inner else [name]
    return found


def _outputs(model: nn.Module, paths: list[str], use: Callable[[Any], object]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    with _listening(model, paths, found):
        use(model)
    return found


@contextmanager
def _listening(model: nn.Module, paths: list[str], found: dict[str, Tensor]) -> Iterator[None]:
    """Keep the first output of each submodule."""
    modules = dict(model.named_modules())
    handles = []
    for path in paths:
        if path in modules:

            def keep(_: nn.Module, __: object, output: object, path: str = path) -> None:
                first = output[0] if isinstance(output, tuple) and output else output
                if isinstance(first, Tensor) and first.is_floating_point() and path not in found:
                    found[path] = first.detach().double()

            handles.append(modules[path].register_forward_hook(keep))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _error(found: Tensor | None, exact: Tensor) -> float:
    if found is None or found.shape != exact.shape:
        return math.nan
    size = exact.pow(2).mean().sqrt().clamp(min=torch.finfo(torch.float64).tiny)
    return float((found - exact).pow(2).mean().sqrt() / size)
