"""Draw tensors from their specs: deterministic in the seed, cheap for large ones."""

import hashlib
from collections.abc import Iterable
from typing import Literal

import torch

from ...errors import TaskError
from ...records import Distribution, ScalarSpec, TensorSpec

_STEP = 2  # of `strided`: every other element


def generator(seed: int, *labels: str) -> torch.Generator:
    """Make a generator whose stream depends on the seed and on every label."""
    digest = hashlib.sha256("\0".join((str(seed), *labels)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def dtype_of(name: str) -> torch.dtype:
    """Return torch's dtype of that name; raises `TaskError` for anything else."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TaskError(
            f"{name!r} is not a dtype; expected one of torch's names, such as 'float32' or 'int64'"
        )
    return found


def dtype_name(dtype: torch.dtype) -> str:
    """Return the dtype's name without torch's prefix."""
    return str(dtype).removeprefix("torch.")


def draw(spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """Draw one tensor in the spec's shape, dtype and layout.

    Floats are drawn in float32 (float64 for float64) and rounded to the dtype.
    """
    values = _values(spec, random)
    return lay_out(values.to(dtype_of(spec.dtype)), spec.layout)


def lay_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the same values in the layout; `contiguous` tensors pass unchanged.

    Example:
        >>> lay_out(torch.zeros(3, 4), "transposed").stride()
        (1, 3)
        >>> lay_out(torch.zeros(3, 4), "strided").stride()
        (8, 2)
    """
    if layout == "transposed" and tensor.dim() >= 2:
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "strided" and tensor.dim() >= 1:
        wide = tensor.new_zeros((*tensor.shape[:-1], tensor.shape[-1] * _STEP))
        view = wide[..., ::_STEP]
        view.copy_(tensor)
        return view
    return tensor.contiguous()


def layout_of(tensor: torch.Tensor) -> str:
    """Name the layout closest to the tensor's strides."""
    if tensor.is_contiguous():
        return "contiguous"
    if tensor.dim() >= 2 and tensor.transpose(-1, -2).is_contiguous():
        return "transposed"
    return "strided"


def copy_of(values: Iterable[object]) -> list[object]:
    """Copy the tensors among the values, keeping their layouts; scalars pass unchanged."""
    return [lay_out(v.clone(), layout_of(v)) if isinstance(v, torch.Tensor) else v for v in values]


def bytes_of(specs: Iterable[TensorSpec | ScalarSpec]) -> int:
    """Count the bytes of the tensors among the specs."""
    return sum(elements_of([s]) * dtype_of(s.dtype).itemsize for s in specs if isinstance(s, TensorSpec))


def elements_of(specs: Iterable[TensorSpec | ScalarSpec]) -> int:
    """Count the elements of the tensors among the specs."""
    return sum(torch.Size(s.shape).numel() for s in specs if isinstance(s, TensorSpec))


def drawn_as(spec: TensorSpec) -> Distribution:
    """Return how the spec's values are drawn: for booleans and integers, float kinds map to their counterparts.

    Example:
        >>> drawn_as(TensorSpec(name="mask", shape=(4,), dtype="bool")).kind
        'bernoulli'
    """
    d, dtype = spec.distribution, dtype_of(spec.dtype)
    if dtype.is_floating_point or d.kind not in {"normal", "uniform"}:
        return d
    kind: Literal["bernoulli", "integers"] = "bernoulli" if dtype is torch.bool else "integers"
    return Distribution(kind=kind, low=d.low, high=max(d.high, d.low + 2), scale=0.5)


def _values(spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    d, shape, dtype = drawn_as(spec), spec.shape, dtype_of(spec.dtype)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    match d.kind:
        case "normal":
            return _normal(shape, wide, random, d.scale)
        case "uniform":
            return torch.empty(shape, dtype=wide).uniform_(d.low, d.high, generator=random)
        case "integers":
            return torch.randint(int(d.low), max(int(d.high), int(d.low) + 1), shape, generator=random)
        case "bernoulli":
            return torch.empty(shape).uniform_(generator=random) < d.scale
        case "constant":
            return torch.full(shape, d.low, dtype=torch.float64 if dtype.is_floating_point else dtype)
        case "sorted":
            return _sorted(spec, d, random, wide)
        case "offsets":
            return _offsets(spec, d, random)
        case "permutation":
            return _permutation(shape, random)
        case "probabilities":
            return torch.softmax(_normal(shape, wide, random, 1.0), dim=-1)
        case "triangular":
            return _normal(shape, wide, random, d.scale).tril()
        case _:
            raise TaskError(f"argument {spec.name!r} has values that only the task's own generator can make")


def _normal(
    shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator, scale: float
) -> torch.Tensor:
    values = torch.randn(shape, dtype=dtype, generator=random)
    return values if scale == 1.0 else values.mul_(scale)


def _sorted(spec: TensorSpec, d: Distribution, random: torch.Generator, wide: torch.dtype) -> torch.Tensor:
    if dtype_of(spec.dtype).is_floating_point:
        return (
            torch.empty(spec.shape, dtype=wide).uniform_(d.low, d.high, generator=random).sort(dim=-1).values
        )
    high = max(int(d.high), int(d.low) + 1)
    return torch.randint(int(d.low), high, spec.shape, generator=random).sort(dim=-1).values


def _offsets(spec: TensorSpec, d: Distribution, random: torch.Generator) -> torch.Tensor:
    found = torch.randint(0, int(d.high) + 1, spec.shape, generator=random).sort(dim=-1).values
    found[..., :1], found[..., -1:] = 0, int(d.high)
    return found


def _permutation(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    if len(shape) == 1:
        return torch.randperm(shape[0], generator=random)
    return torch.rand(shape, generator=random).argsort(dim=-1)
