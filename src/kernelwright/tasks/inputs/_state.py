"""Random parameters and buffers: never all ones or zeros, declared structure kept.

Covers: learnable parameters, running statistics, buffers that differ from one construction to the next.
Does not cover: tensors outside the state dictionary; those are drawn by the module's own seed.
"""

from collections.abc import Callable, Sequence

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

    def sample(self, seed: int) -> dict[str, torch.Tensor]:
        """Draw a state; tied tensors stay tied in value."""
        drawn: dict[tuple[int, torch.Size], torch.Tensor] = {}
        state = {}
        for name, value in self._first.items():
            place = (value.data_ptr(), value.shape)
            if place not in drawn or not value.numel():
                drawn[place] = self._draw(name, value, generator(seed, "state", name))
            state[name] = drawn[place].clone()
        return state

    def _draw(self, name: str, value: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        if not value.is_floating_point() or value.numel() == 0:
            return value.clone()
        if name not in self._learnt:
            return self._draw_buffer(name, value, random)
        fixed = torch.equal(value, self._second[name])
        return _like_parameter(value, random, fixed=fixed, dense=self._learnt[name])

    def _draw_buffer(self, name: str, value: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        last = name.rpartition(".")[2]
        if last.startswith("running_") or last.endswith(("_mean", "_var")):
            return _like_statistic(last, value, random)
        if torch.equal(value, self._second[name]):
            return value.clone()  # the same whatever the seed: a mask, a table, a declared constant
        return _like_parameter(value, random, fixed=False)


def _like_statistic(name: str, value: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    noise = torch.empty(value.shape).uniform_(0.5, 1.5, generator=random)
    return (noise if "var" in name or "std" in name else noise.sub_(1.0)).to(value.dtype)


def _like_parameter(
    value: torch.Tensor, random: torch.Generator, *, fixed: bool, dense: bool = False
) -> torch.Tensor:
    """Draw values of the same scale; exact zeros within a random tensor stay, as padding and masks do.

    A `dense` tensor is one that training changes: an identity at initialisation need not stay one.
    """
    noise = torch.randn(value.shape, generator=random)
    if not fixed:
        wide = value.float()
        mean, spread = wide.mean(), wide.std() if value.numel() > 1 else wide.abs().max()
        return torch.where(wide == 0, wide, mean + spread * noise).to(value.dtype)
    scale = value.float().abs()
    scale = torch.where(scale == 0, scale.max().clamp(min=1.0), scale) if dense or alike(value) else scale
    return (value + _SPREAD * scale * noise).to(value.dtype)
