"""Infer the distribution of a tensor's values from the calls that make it, without reading values."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...records import Distribution

_NORMAL, _UNIFORM = Distribution(kind="normal"), Distribution(kind="uniform")
_CASTS = frozenset({
    "bfloat16", "clone", "contiguous", "cpu", "detach", "double", "float", "half", "int", "long", "requires_grad_",
    "to", "type",
})  # fmt: skip
_MOVES = frozenset({
    "flatten", "movedim", "mT", "permute", "reshape", "squeeze", "swapaxes", "T", "t", "transpose", "unflatten",
    "unsqueeze", "view",
})  # fmt: skip
_ELEMENTWISE = frozenset({"normal", "uniform", "integers", "bernoulli", "constant"})


class Recogniser(TorchFunctionMode):
    """Follow tensors from `torch.rand` and similar functions through moves, casts and affine maps.

    Covers: rand, randn, randint, randperm, zeros, ones, full, their `_like` forms, casts and views of
    those, multiplication and addition of numbers, comparisons with a number, softmax, sort, tril.
    Does not cover: anything else; those tensors are `given`, made by the task's own generator alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, tuple[torch.Tensor, Distribution]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the call and remember what is known about its result."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = _name(func)
        tensor = result if isinstance(result, torch.Tensor) else None
        if tensor is None and name == "sort":
            tensor = result[0]
        if name == "setitem":
            self._known.pop(id(args[0]), None)
        if isinstance(tensor, torch.Tensor):
            known = self._made(name, args, kwargs) or self._derived(name, args, kwargs)
            if known is not None:
                self._known[id(tensor)] = (tensor, known)
            else:
                self._known.pop(id(tensor), None)
        return result

    def distribution(self, tensor: torch.Tensor) -> Distribution:
        """Return what is known about the tensor, or `given`."""
        entry = self._known.get(id(tensor))
        return entry[1] if entry is not None and entry[0] is tensor else Distribution(kind="given")

    def _made(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Distribution | None:
        match name:
            case "rand" | "rand_like":
                return _UNIFORM
            case "randn" | "randn_like":
                return _NORMAL
            case "randint" | "randint_like":
                return _integers(args[1:] if name == "randint_like" else args, kwargs)
            case "randperm":
                return Distribution(kind="permutation")
            case "zeros" | "zeros_like" | "ones" | "ones_like":
                return Distribution(kind="constant", low=float(name.startswith("ones")))
            case "full" | "full_like":
                value = kwargs.get("fill_value", args[1] if len(args) > 1 else None)
                return Distribution(kind="constant", low=float(value)) if _number(value) else None
        return None

    def _derived(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Distribution | None:
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        source = self._known.get(id(tensors[0])) if len(tensors) == 1 else None
        if source is None:
            return None
        known = source[1]
        if name in _CASTS or (name in _MOVES and known.kind in _ELEMENTWISE):
            return known
        if name == "bool" and known.kind == "integers" and (known.low, known.high) == (0.0, 2.0):
            return Distribution(kind="bernoulli", scale=0.5)
        if name in {"gt", "lt", "ge", "le"} and known.kind == "uniform" and len(args) == 2:
            return _threshold(name, known, args[1])
        if name == "softmax":
            return _over_last(
                "probabilities", tensors[0], kwargs.get("dim", args[1] if len(args) > 1 else None)
            )
        if name == "sort" and known.kind in {"uniform", "integers"} and not kwargs.get("descending"):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            return known.model_copy(update={"kind": "sorted"}) if _is_last(tensors[0], dim) else None
        if name == "tril" and known.kind == "normal" and len(args) == 1:
            return known.model_copy(update={"kind": "triangular"})
        return _affine(name, known, args)


def _name(func: Callable[..., Any]) -> str:
    name = getattr(func, "__name__", "")
    if name == "__get__":  # a property: the name is on the descriptor
        return str(getattr(getattr(func, "__self__", None), "__name__", ""))
    return name.strip("_") if name.startswith("__") else name


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _integers(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Distribution | None:
    bounds = [a for a in args if _number(a)]
    low = kwargs.get("low", bounds[0] if len(bounds) > 1 else 0)
    high = kwargs.get("high", bounds[-1] if bounds else None)
    if not (_number(low) and _number(high)):
        return None
    return Distribution(kind="integers", low=float(low), high=float(high))


def _threshold(name: str, known: Distribution, value: object) -> Distribution | None:
    if not isinstance(value, int | float):
        return None
    below = min(max((value - known.low) / (known.high - known.low), 0.0), 1.0)
    return Distribution(kind="bernoulli", scale=below if name in {"lt", "le"} else 1.0 - below)


def _is_last(tensor: torch.Tensor, dim: object) -> bool:
    return dim in {-1, tensor.dim() - 1}


def _over_last(kind: str, tensor: torch.Tensor, dim: object) -> Distribution | None:
    return Distribution.model_validate({"kind": kind}) if _is_last(tensor, dim) else None


def _affine(name: str, known: Distribution, args: tuple[Any, ...]) -> Distribution | None:
    """Follow `a * x`, `x / a`, `x + b`, `x - b`, `b - x` and `-x` on uniform and normal values."""
    numbers = [float(a) for a in args if _number(a)]
    if name == "neg":
        name, numbers = "mul", [-1.0]
    if len(numbers) != 1 or known.kind not in {"uniform", "normal"}:
        return None
    number, factor, shift = numbers[0], 1.0, 0.0
    match name:
        case "mul" | "rmul" | "imul" | "mul_":
            factor = number
        case "div" | "truediv" | "div_" if number:
            factor = 1.0 / number
        case "add" | "radd" | "iadd" | "add_":
            shift = number
        case "sub" | "isub" | "sub_" if not _number(args[0]):
            shift = -number
        case "rsub":
            factor, shift = -1.0, number
        case _:
            return None
    if factor == 0.0 or (known.kind == "normal" and shift):
        return None
    if known.kind == "normal":
        return known.model_copy(update={"scale": known.scale * abs(factor)})
    ends = sorted((known.low * factor + shift, known.high * factor + shift))
    return known.model_copy(update={"low": ends[0], "high": ends[1]})
