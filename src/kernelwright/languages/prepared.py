"""Pack weights once, and again when they change, in workers and in exported packages.

A candidate declares it by name: `prepare(weights)` in the file of its function, or a method `prepare(self)` of its
module. Imports torch and the standard library only, because it is copied unchanged into every exported package.

Covers: weights replaced by other tensors, other memory under the same tensor (`w.data = other`), and weights that
torch's operators wrote to (`Tensor._version`).
Does not cover: writes that torch does not track, into `.data`, numpy or raw memory; whole submodules replaced.
"""

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_Seen = tuple[Sequence[Tensor], list[int] | None, list[int]]
"""Weights; how often each was written to, none where one cannot be tracked (of inference mode); where each lies."""
_VERSION = operator.attrgetter("_version")


class Prepared:
    """A function called with the arguments and what `prepare(weights)` made of the weights.

    Example:
        >>> def prepare(weights): return weights["w"].t().contiguous()
        >>> def run(x, packed): return x @ packed
        >>> kernel, w = Prepared(run, prepare, ("w",)), torch.ones(2, 3)
        >>> kernel(torch.ones(1, 3), w), kernel(torch.ones(1, 3), w.mul_(2))
        (tensor([[3., 3.]]), tensor([[6., 6.]]))
    """

    def __init__(
        self, kernel: Callable[..., Any], prepare: Callable[..., Any], names: Sequence[str] = ()
    ) -> None:
        self._kernel, self._prepare = kernel, prepare
        self.names = tuple(names)
        """Names of the weights, which are the last arguments of a call."""
        self._held: tuple[_Seen, Any] = (((), None, []), None)

    def __call__(self, *arguments: Any) -> Any:
        """Call with (*arguments, *weights), after repacking the weights if they changed."""
        split = len(arguments) - len(self.names)
        return self._kernel(*arguments[:split], self.follow(*arguments[split:]))

    def follow(self, *weights: Tensor) -> Any:
        """Return the result of `prepare` for the weights; called only if they changed."""
        if not weights:
            raise RuntimeError("prepare(weights) is declared, and the task has no parameters or buffers")
        if _changed(self._held[0], weights):
            seen = _seen(weights)
            with torch.no_grad():
                self._held = seen, self._prepare(dict(zip(self.names, weights, strict=True)))
        return self._held[1]


class PreparedModule:
    """A module whose `prepare()` is called before a call if its parameters or buffers changed."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._places = [
            (place, name)
            for owner in module.modules()
            for place in (owner._parameters, owner._buffers)
            for name in place
            if name not in owner._non_persistent_buffers_set
        ]
        self._seen: _Seen | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the module, after letting it repack its weights if they changed."""
        self.follow()
        return self._module(*arguments)

    def follow(self) -> None:
        """Let the module pack its weights if they changed."""
        held = [place[name] for place, name in self._places]
        weights = [w for w in held if w is not None]
        if self._seen is None or _changed(self._seen, weights):
            self._seen = _seen(weights)
            with torch.no_grad():
                self._module.prepare()  # type: ignore[operator]  # declared: it is a method


def prepared(kernel: Any, names: Sequence[str] = ()) -> Prepared | PreparedModule | None:
    """Return a callable that tracks the kernel's weights; None if it declares no `prepare`."""
    if isinstance(kernel, torch.nn.Module):
        own = getattr(kernel, "prepare", None)
        return PreparedModule(kernel) if callable(own) and _parameters(own) == [] else None
    beside: Any = getattr(inspect.unwrap(kernel), "__globals__", {}).get("prepare")
    found = callable(beside) and _parameters(beside) == ["weights"]
    return Prepared(kernel, beside, names) if found else None


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def _seen(weights: Sequence[Tensor]) -> _Seen:
    versions = None if any(w.is_inference() for w in weights) else list(map(_VERSION, weights))
    return weights, versions, list(map(Tensor.data_ptr, weights))


def _changed(seen: _Seen, weights: Sequence[Tensor]) -> bool:
    """Whether a weight is another tensor, was written to, or cannot be tracked."""
    known, versions, places = seen
    if versions is None or len(known) != len(weights) or not all(map(operator.is_, weights, known)):
        return True
    return list(map(_VERSION, weights)) != versions or list(map(Tensor.data_ptr, weights)) != places
