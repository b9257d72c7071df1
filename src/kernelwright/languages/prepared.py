"""Pack weights once, and again when they change, in workers and in exported packages.

A candidate declares it by name: `prepare(weights)` in the file of its function, or a method `prepare(self)` of its
module. Imports torch and the standard library only, because it is copied unchanged into every exported package.

A function that changes weights itself (running statistics) would have them packed again in every call. Its file
declares their places among the weights, `PASSED_ON = (2, 3)`: `prepare` passes these on; writes to them do not count.

Covers: weights replaced by other tensors, other memory or strides under the same tensor (`w.data = other`), weights
that torch's operators wrote to (`Tensor._version`), steps of optimizers, which fused ones do not count as writes. Of
writes that torch does not count, into `.data`, numpy or raw memory, those to the few bytes in a weight's middle that
are read in every call, on CPUs: what writes all of a weight does.
Does not cover: uncounted writes elsewhere in a weight, such as to single rows, or on another device: call `forget()`
after them, since only to read all weights in every call would find them; whole submodules replaced.
"""

import ctypes
import inspect
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

_VERSION = operator.attrgetter("_version")
_SAMPLE_BYTES = 32
PASSED_ON = "PASSED_ON"
"""Name of what a file declares."""


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
        self._seen, self._packed = Seen(getattr(prepare, "__globals__", {}).get(PASSED_ON, ())), None

    def __call__(self, *arguments: Any) -> Any:
        """Call with (*arguments, *weights), after repacking the weights if they changed."""
        split = len(arguments) - len(self.names)
        return self._kernel(*arguments[:split], self.follow(*arguments[split:]))

    def follow(self, *weights: Tensor) -> Any:
        """Return the result of `prepare` for the weights; called only if they changed."""
        if not weights:
            raise RuntimeError("prepare(weights) is declared, and the task has no parameters or buffers")
        if self._seen.differ(weights):
            with self._seen.at(weights):
                self._packed = self._prepare(dict(zip(self.names, weights, strict=True)))
        return self._packed

    def again(self) -> "Prepared":
        """Return the same for other weights, which packs those."""
        return Prepared(self._kernel, self._prepare, self.names)

    def packed(self) -> tuple[Callable[..., Any], Any, tuple[dict[str, Any], str, Any]]:
        """Return the function, what it is called with, and where an object lies until that is forgotten."""
        return self._kernel, self._packed, self._seen.place()

    def is_packed(self, *weights: Tensor) -> bool:
        """Tell whether the weights are as they were when they were packed."""
        return not self._seen.differ(weights)

    def forget(self) -> None:
        """Pack the weights again before the next call: for writes that cannot be seen."""
        self._seen.forget()


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
        self._seen = Seen()

    def __call__(self, *arguments: Any) -> Any:
        """Call the module, after letting it repack its weights if they changed."""
        self.follow()
        return self._module(*arguments)

    def follow(self) -> None:
        """Let the module pack its weights if they changed."""
        held = [place[name] for place, name in self._places]
        weights = [w for w in held if w is not None]
        if self._seen.differ(weights):
            with self._seen.at(weights):
                self._module.prepare()  # type: ignore[operator]  # declared: it is a method

    def forget(self) -> None:
        """Pack the weights again before the next call: for writes that cannot be seen."""
        self._seen.forget()


def prepared(kernel: Any, names: Sequence[str] = ()) -> Prepared | PreparedModule | None:
    """Return a callable that tracks the kernel's weights; None if it declares no `prepare`."""
    if isinstance(kernel, torch.nn.Module):
        own = getattr(kernel, "prepare", None)
        return PreparedModule(kernel) if callable(own) and _parameters(own) == [] else None
    declared: Any = getattr(inspect.unwrap(kernel), "__globals__", {}).get("prepare")
    found = callable(declared) and _parameters(declared) == ["weights"]
    return Prepared(kernel, declared, names) if found else None


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


class Seen:
    """Weights as they were when they were last looked at.

    Example:
        >>> seen, w = Seen(), torch.ones(3)
        >>> seen.look([w])
        >>> seen.differ([w]), seen.differ([w.add_(1)])
        (False, True)
    """

    def __init__(self, unread: Sequence[int] = ()) -> None:
        """`unread` are the places of weights that may change: only that each is the same tensor counts."""
        self._unread = frozenset(unread)
        self._weights: Sequence[Tensor] = ()
        self._versions: list[int] | None = None
        self._places, self._strides = list[int](), list[tuple[int, ...]]()
        self._samples, self._bytes = list[memoryview](), b""
        stepped = weakref.WeakMethod(self._stepped)

        def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            if (call := stepped()) is not None:
                call(optimizer)

        weakref.finalize(self, register_optimizer_step_post_hook(after).remove)

    def look(self, weights: Sequence[Tensor]) -> None:
        """Take the weights as they are now."""
        read = self._read(weights)
        self._versions = None if any(w.is_inference() for w in read) else list(map(_VERSION, read))
        self._places, self._strides = list(map(Tensor.data_ptr, read)), list(map(Tensor.stride, read))
        self._samples = [s for w in read if (s := _sample(w)) is not None]
        self._bytes = b"".join(self._samples)
        self._weights = weights

    def _read(self, weights: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the weights whose values count."""
        if not self._unread:
            return weights
        return [w for place, w in enumerate(weights) if place not in self._unread]

    def differ(self, weights: Sequence[Tensor]) -> bool:
        """Tell whether a weight is another tensor, was written to, or cannot be tracked (one of inference mode)."""
        if self._versions is None or len(self._weights) != len(weights):
            return True
        read = self._read(weights)
        return (
            not all(map(operator.is_, weights, self._weights))
            or list(map(_VERSION, read)) != self._versions
            or list(map(Tensor.data_ptr, read)) != self._places
            or list(map(Tensor.stride, read)) != self._strides
            or b"".join(self._samples) != self._bytes  # after the places: the memory is there
        )

    @contextmanager
    def at(self, weights: Sequence[Tensor]) -> Iterator[None]:
        """Take the weights as they are before something is made of them, and forget them where that fails."""
        self.look(weights)
        try:
            with torch.no_grad():
                yield
        except BaseException:
            self.forget()
            raise

    def place(self) -> tuple[dict[str, Any], str, Any]:
        """Return where an object lies until the weights are looked at again or forgotten: dict, key, the object."""
        return vars(self), "_places", self._places

    def __reduce__(self) -> tuple[type["Seen"], tuple[tuple[int, ...]]]:
        """A copy, in another process perhaps, has looked at nothing."""
        return Seen, (tuple(self._unread),)

    def forget(self) -> None:
        """Have looked at nothing."""
        self._weights, self._versions, self._places, self._samples = (), None, [], []

    def _stepped(self, optimizer: torch.optim.Optimizer) -> None:
        held = set(map(id, self._weights))
        if held and any(id(p) in held for group in optimizer.param_groups for p in group["params"]):
            self.forget()


def _sample(weight: Tensor) -> memoryview | None:
    """Return a view of the middle bytes of a weight's memory; it must not be read once that is freed."""
    if weight.device.type != "cpu" or not weight.numel() or not weight.is_contiguous():
        return None
    size = weight.numel() * weight.element_size()
    count = min(_SAMPLE_BYTES, size)
    start = weight.data_ptr() + (size - count) // 2
    return memoryview((ctypes.c_char * count).from_address(start))
