"""Random parameters and buffers: never all ones or zeros, declared structure kept.

Covers: learnable parameters, running statistics, buffers that differ from one construction to the next.
Does not cover: tensors outside the state dictionary; those are drawn by the module's own seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn.parameter import is_lazy

from ._draw import generator
from ._seed import seed_torch
from .perturbations import alike

_SPREAD = 0.2
"""Relative spread given to values that the module initialises equally."""
_SEEDS = (0, 1)


def construct(make: Callable[[], torch.nn.Module], seed: int = _SEEDS[0]) -> torch.nn.Module:
    """Make the module under a given seed; the process's random state is unchanged."""
    with torch.random.fork_rng():
        seed_torch(seed)
        return make()


def materialised(module: torch.nn.Module, inputs: Callable[[], Sequence[object]]) -> torch.nn.Module:
    """Return the module, called once on the inputs if it has lazy layers, which take their sizes from them.

    Example:
        >>> module = materialised(torch.nn.LazyLinear(2), lambda: [torch.ones(1, 3)])
        >>> tuple(module.weight.shape)
        (2, 3)
    """
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        with torch.no_grad():
            module(*inputs())
    return module


class StateModel:
    """The structure of a module's state, learnt from two constructions with different seeds."""

    def __init__(self, make: Callable[[], torch.nn.Module]) -> None:
        first, second = (construct(make, seed) for seed in _SEEDS)
        self._first = {k: v.detach() for k, v in first.state_dict().items()}
        self._second = second.state_dict()
        parameters = first.named_parameters(remove_duplicate=False)
        self._learnt = {name: parameter.requires_grad for name, parameter in parameters}
        self._kinds = dict[str, _Kind]()

    def sample(self, seed: int) -> dict[str, torch.Tensor]:
        """Draw a state; tied tensors stay tied in value."""
        drawn: dict[tuple[int, torch.Size], torch.Tensor] = {}
        state = {}
        for name, value in self._first.items():
            place = (value.data_ptr(), value.shape)
            if place in drawn and value.numel():
                state[name] = drawn[place].clone()
            else:
                state[name] = drawn[place] = self._draw(name, value, generator(seed, "state", name))
        return state

    def _draw(self, name: str, value: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        if not value.is_floating_point() or value.numel() == 0:
            return value.clone()
        if name not in self._learnt:
            return self._draw_buffer(name, value, random)
        return self._kind(name, value).drawn(value, random, dense=self._learnt[name])

    def _draw_buffer(self, name: str, value: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        last = name.rpartition(".")[2]
        if last.startswith("running_") or last.endswith(("_mean", "_var")):
            return _like_statistic(last, value, random)
        kind = self._kind(name, value)
        if kind.fixed:
            return value.clone()  # the same whatever the seed: a mask, a table, a declared constant
        return kind.drawn(value, random)

    def _kind(self, name: str, value: torch.Tensor) -> "_Kind":
        """Return what is known of a tensor, worked out once: that reads millions of values as often as drawing does."""
        if name not in self._kinds:
            self._kinds[name] = _Kind.of(value, self._second[name])
        return self._kinds[name]


def _like_statistic(name: str, value: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    noise = torch.empty(value.shape).uniform_(0.5, 1.5, generator=random)
    return (noise if "var" in name or "std" in name else noise.sub_(1.0)).to(value.dtype)


@dataclass(frozen=True)
class _Kind:
    """What values of a tensor are drawn like."""

    fixed: bool
    """Whether every construction gives the same values."""
    has_zeros: bool
    mean: torch.Tensor
    spread: torch.Tensor

    @classmethod
    def of(cls, value: torch.Tensor, other: torch.Tensor) -> "_Kind":
        """Compare a tensor of one construction with that of another."""
        wide = value.float()
        spread = wide.std() if value.numel() > 1 else wide.abs().max()
        return cls(torch.equal(value, other), not bool(wide.all()), wide.mean(), spread)

    def drawn(self, value: torch.Tensor, random: torch.Generator, *, dense: bool = False) -> torch.Tensor:
        """Draw values of the same scale; exact zeros within a random tensor stay, as padding and masks do.

        A `dense` tensor is one that training changes: an identity at initialisation need not stay one.
        """
        noise = torch.randn(value.shape, generator=random)
        if not self.fixed:
            drawn = noise.mul_(self.spread).add_(self.mean)
            return (drawn.masked_fill_(value == 0, 0.0) if self.has_zeros else drawn).to(value.dtype)
        scale = value.float().abs()
        scale = torch.where(scale == 0, scale.max().clamp(min=1.0), scale) if dense or alike(value) else scale
        return (value + _SPREAD * scale * noise).to(value.dtype)
