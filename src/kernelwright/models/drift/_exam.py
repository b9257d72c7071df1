"""The native model's own noise, measured once on what will be served."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ...errors import InputError
from ._limits import DRIFTED, Limits, errors_of, limits_of, statistics_of
from ._noise import dtype_of, exact_of, ways_of
from ._serve import Scene


class Exam(Protocol):
    """Runs models."""

    def __call__(self, model: Any, scene: Scene) -> list[Tensor]:
        """Run a model in a scene: outputs (positions, features) of each request."""


@dataclass(frozen=True)
class Noise:
    """What the native model is off by itself, measured once for many comparisons."""

    native: Any
    """The native model."""
    exam: Exam
    """What both models are put through."""
    exact: list[Tensor]
    """The native model's outputs in float64."""
    limits: Limits
    """What honest evaluations reach."""
    served: dict[Scene, list[Tensor]]
    """The native model's outputs, by scene."""
    problem: str = ""
    """Why the noise is not known; empty if it is."""

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """The scenes that are compared, without float64."""
        return tuple(self.served)

    def errors(self, model: Any, scene: Scene) -> Tensor:
        """Return a model's errors in a scene, (positions,).

        In float64 they are compared with float32's noise: where the native model is in half precision, they count for
        as much more as its noise is larger.
        """
        if scene is not Scene.EXACT:
            return _errors(self, self.exam(model, scene))
        exact, found = exact_of(model), []
        for served in {Scene.ALONE, self.scenes[-1]}:
            found.append(_errors(self, exact(functools.partial(self.exam, scene=served))))
        eps = torch.finfo(dtype_of(self.native)).eps
        return torch.stack(found).amax(0) * max(eps / torch.finfo(torch.float32).eps, 1.0)


def noise_of(native: Any, exam: Exam, scenes: Sequence[Scene], *, draws: int, seed: int) -> Noise:
    """Measure the native model's noise: itself against float64, and honest reorderings of its sums.

    Args:
        native: The native model.
        exam: What models are put through.
        scenes: The scenes that comparisons will use.
        draws: How many reorderings are drawn.
        seed: Seed of them.
    """
    dtype = dtype_of(native)
    served = {scene: exam(native, scene) for scene in scenes}
    try:
        exact = exact_of(native)(lambda wide: exam(wide, scenes[0]))
    except (RuntimeError, TypeError, NotImplementedError, ValueError):  # its code knows no float64
        exact = served[scenes[0]]
    rows = [errors_of(served[scenes[0]], exact)]
    for way in ways_of(dtype, draws, seed):
        with way():
            rows.append(errors_of(exam(native, scenes[0]), exact))
    limits = limits_of(
        torch.stack(rows),
        [y.double() for y in exact],
        torch.finfo(dtype).eps,
        comparisons=2 * (len(scenes) + 1),
    )
    problem = ""
    if not torch.stack(rows).isfinite().all():
        problem = "outputs of the native model are not finite"
    elif any(y.dtype is not torch.float64 for y in exact):
        problem = "the native model cannot be run in float64; pass it as an nn.Module of torch's operators"
    else:
        problem = _not_itself(native, exam, exact, served, limits)
    return Noise(native, exam, exact, limits, served, problem)


def _not_itself(
    native: Any, exam: Exam, exact: Sequence[Tensor], served: Mapping[Scene, Sequence[Tensor]], limits: Limits
) -> str:
    """Say in which scene the native model is farther from itself than its noise explains; empty if in none."""
    again = errors_of(exact_of(native)(lambda wide: exam(wide, next(iter(served)))), exact)
    if bool((again > limits.least).any()):
        return "the native model is not itself when run again in float64: is something in it random?"
    for scene, found in served.items():
        excess = limits.excess(statistics_of(errors_of(found, exact), limits.noise), DRIFTED)
        if excess > 1:
            return f"the native model is not itself when {scene}: {excess:.3g} times the limit of its noise"
    return ""


def _errors(noise: Noise, outputs: Sequence[Tensor]) -> Tensor:
    wrong = [tuple(y.shape) for y, e in zip(outputs, noise.exact, strict=False) if y.shape != e.shape]
    if wrong or len(outputs) != len(noise.exact):
        raise InputError(
            f"the changed model returned outputs of {wrong or len(outputs)}; the native one returns "
            f"{[tuple(e.shape) for e in noise.exact]}"
        )
    return errors_of(outputs, noise.exact)
