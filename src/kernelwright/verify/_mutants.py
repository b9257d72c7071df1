"""Wrong answers that every task must refuse: made from right ones, in the judge's process."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

Outputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Material:
    """What mutants are made from, on one case."""

    right: Outputs
    """The native op's outputs."""
    stale: Outputs
    """Its outputs for other inputs."""
    other_weights: Outputs | None
    """Its outputs under another state; none where there is no state."""
    inputs: Sequence[torch.Tensor]
    """The tensor arguments."""


def mutants(material: Material) -> Iterator[tuple[str, Outputs]]:
    """Yield each wrong answer that can be made here, with its name; those equal to the truth too.

    Example:
        >>> y = torch.arange(32.0).view(2, 16) + 1
        >>> names = [name for name, _ in mutants(Material((y,), (y + 1,), None, [y]))]
        >>> names[:4], "input-0" in names
        (['zeros', 'mean', 'scaled', 'half-rows'], True)
    """
    for name, wrong in _EACH.items():
        made = tuple(wrong(t) for t in material.right)
        if any(m is not t for m, t in zip(made, material.right, strict=True)):
            yield name, made
    yield "stale", material.stale
    if material.other_weights is not None:
        yield "other-weights", material.other_weights
    for i, given in enumerate(material.inputs):
        outputs = tuple(given if _fits(given, t) else t for t in material.right)
        if any(o is given for o in outputs):
            yield f"input-{i}", outputs


def random_mutants(
    drawn: Sequence[Outputs], inputs: Sequence[torch.Tensor]
) -> Iterator[tuple[str, list[Outputs]]]:
    """Yield wrong ways to draw random outputs, made from right draws; one tuple of outputs a call."""
    for name in ("zeros", "scaled", "half-rows", "wrong-tile"):
        yield name, [tuple(map(_EACH[name], outputs)) for outputs in drawn]
    average = tuple(_average([outputs[i] for outputs in drawn]) for i in range(len(drawn[0])))
    yield "average", [average] * len(drawn)
    yield "one-draw", [drawn[0]] * len(drawn)
    for i, given in enumerate(inputs):
        outputs = tuple(given if _fits(given, t) else t for t in drawn[0])
        if any(o is given for o in outputs):
            yield f"input-{i}", [outputs] * len(drawn)


def _average(calls: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([c.double() for c in calls]).mean(0).to(calls[0].dtype)


def _zeros(t: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(t)


def _mean(t: torch.Tensor) -> torch.Tensor:
    if not t.is_floating_point() or t.numel() < 2:
        return t
    return torch.full_like(t, float(t.double().nan_to_num().mean()))


def _scaled(t: torch.Tensor) -> torch.Tensor:
    return t * 0.99 if t.is_floating_point() else t


def _half_rows(t: torch.Tensor) -> torch.Tensor:
    """Compute every other row and repeat it."""
    if t.ndim == 0 or t.shape[0] < 2:
        return t
    return t[::2].repeat_interleave(2, dim=0)[: t.shape[0]].contiguous()


def _wrong_tile(t: torch.Tensor) -> torch.Tensor:
    """Leave out the last sixteenth."""
    if t.numel() < 2:
        return t
    made = t.clone(memory_format=torch.contiguous_format)
    made.view(-1)[-max(1, t.numel() // 16) :] = 0
    return made


def _transposed(t: torch.Tensor) -> torch.Tensor:
    if t.ndim < 2 or t.shape[-1] != t.shape[-2] or t.shape[-1] == 1:
        return t
    return t.transpose(-1, -2).contiguous()


def _downcast(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """Round to a smaller dtype; a value that it holds by chance moves too, as the single value of a loss may."""
    least = torch.finfo(dtype).eps / 8

    def mutant(t: torch.Tensor) -> torch.Tensor:
        if t.dtype not in (torch.float32, torch.float64):
            return t
        rounded = t.to(dtype).to(t.dtype)
        return torch.where((rounded - t).abs() < t.abs() * least, t * (1 + least), rounded)

    return mutant


DOWNCASTS = {"float16": _downcast(torch.float16), "bfloat16": _downcast(torch.bfloat16)}
"""Mutants that are right but for their precision."""
_EACH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zeros": _zeros,
    "mean": _mean,
    "scaled": _scaled,
    "half-rows": _half_rows,
    "wrong-tile": _wrong_tile,
    "transposed": _transposed,
    **DOWNCASTS,
}


def _fits(given: torch.Tensor, output: torch.Tensor) -> bool:
    return given.shape == output.shape and given.dtype == output.dtype
