"""Compare a changed model with its native form as deployed, and say whether it drifted and where."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...records import Record
from ._cause import Cause, find_cause
from ._decoder import deployment_of
from ._layers import LayerError, layer_errors
from ._limits import DRIFTED, SAME, Limits, errors_of, limits_of, statistics_of
from ._measures import Agreement, Generation, agreement_of, generation_of, perplexity_of
from ._noise import dtype_of, exact_of, ways_of
from ._paired import Paired
from ._sampler import SamplerDrift, compare_samplers, contexts_of
from ._serve import Requests, Scene, own_text, serve

LENGTHS = (5, 12, 33, 64)
"""Lengths of the requests that the native model writes itself."""
STEPS = 8
"""Tokens at the end of each request that are decoded one by one."""
_CONTEXTS = 8


class Outcome(StrEnum):
    """Whether a changed model is the native one but for rounding."""

    SAME = "same"
    """All errors are what the native model's own noise explains."""
    DRIFTED = "drifted"
    """An error is beyond what an honest evaluation reaches."""
    INCONCLUSIVE = "inconclusive"
    """An error lies between, or the native model's own noise is not known."""


class SceneDrift(Record):
    """Errors as served in one way, in units of the native model's noise at the same position."""

    scene: str
    """How requests were served."""
    largest: float
    """Largest error of a position."""
    overall: float
    """Root mean square over positions."""
    native: float
    """The same of the native model, served in this way."""
    excess: float
    """How many times the limit of drift the farther of the two is; above 1 it is drift."""
    request: int
    """Request of the largest error, from 0."""
    position: int
    """Position of the largest error in its request, from 0."""
    first: int
    """First position of any request beyond the limit; -1 if none."""
    beyond: float
    """Share of positions beyond the limit."""
    deterministic: bool
    """Whether a second run gave the same to the bit."""


class Drift(Record):
    """What a comparison found.

    Covers: the requests that were served, as they were served: alone, through the cache, in a batch; the sampler.
    Does not cover: longer requests and other batches than these; tokens that no request has.
    """

    outcome: Outcome
    """Whether it drifted."""
    reason: str
    """Why."""
    dtype: str
    """The native model's dtype."""
    scenes: tuple[SceneDrift, ...]
    """Errors by the way requests are served."""
    limits: dict[str, float]
    """Largest and overall error beyond which a model has drifted, in units of noise."""
    noise: float
    """Root mean square error of honest evaluations, in units of the outputs'."""
    agreement: Agreement | None = None
    """Distributions of the next token; None for outputs that are no logits."""
    perplexity: Paired | None = None
    """Negative log likelihood of the requests' tokens, nats for each token."""
    generation: Generation | None = None
    """Greedy text."""
    sampler: SamplerDrift | None = None
    """What the samplers draw from the same logits; None where there is one sampler."""
    layers: tuple[LayerError, ...] = ()
    """Growth of errors over submodules."""
    cause: Cause | None = None
    """Where the drift comes from; None without a drift, or where models have no submodules."""


Exam = Callable[[Any, Scene], list[Tensor]]
"""Runs a model in a scene: outputs (positions, features) of each request."""


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
    exact = exact_of(native)(lambda wide: exam(wide, scenes[0]))
    rows = [errors_of(served[scenes[0]], exact)]
    for way in ways_of(dtype, draws, seed):
        with way():
            rows.append(errors_of(exam(native, scenes[0]), exact))
    limits = limits_of(torch.stack(rows), exact, torch.finfo(dtype).eps, comparisons=2 * len(scenes))
    problem = ""
    if not torch.stack(rows).isfinite().all():
        problem = "outputs of the native model are not finite"
    elif any(y.dtype is not torch.float64 for y in exact):
        problem = "the native model cannot be run in float64"
    else:
        again = exam(native, scenes[0])
        own = [limits.excess(statistics_of(errors_of(y, exact), limits.noise), DRIFTED) for y in (again, *served.values())]
        if max(own) > 1:
            where = ["run again", *served][own.index(max(own))]
            problem = f"the native model is not itself when {where}: {max(own):.3g} times the limit of its noise"
    return Noise(native, exam, exact, limits, served, problem)


def drift(
    native: Any,
    changed: Any,
    requests: Requests | None = None,
    *,
    lengths: Sequence[int] = LENGTHS,
    steps: int = STEPS,
    draws: int = 12,
    seed: int = 0,
    kernels: Mapping[str, str] | None = None,
    noise: Noise | None = None,
) -> Drift:
    """Compare a changed language model with its native form, as deployed.

    Args:
        native: A module or callable with tokens in and logits out, with a cache and a mask or without (see `Decoder`),
            a model of transformers, or a `Deployment` with a sampler.
        changed: The same, changed: with other kernels, compiled, quantised ...
        requests: What is served; by default the native model writes it.
        lengths: Lengths of the requests that it writes. Nothing is said of longer ones.
        steps: Tokens at the end of each request that are decoded one by one.
        draws: Honest reorderings of the native model, from which the limits are taken.
        seed: Seed of requests and reorderings.
        kernels: Names of kernels by the path of the submodule that each is in.
        noise: The native model's noise on these requests, if it was measured before.

    Raises:
        InputError: a model is none, or its logits have the wrong shape.

    Example:
        >>> embed = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
        >>> drift(embed, embed, lengths=(4, 6), draws=4).outcome.value
        'same'
    """
    ours, theirs = deployment_of(native), deployment_of(changed)
    if noise is None:
        requests = requests or own_text(ours.model, lengths, steps, seed)
        noise = noise_of(ours.model, _serving(requests), tuple(Scene), draws=draws, seed=seed)
    elif requests is None:
        raise InputError("a noise was given without the requests it was measured on; pass both")
    found = compare(noise, theirs.model, tuple(Scene), kernels)
    alone, other = noise.served[Scene.ALONE], serve(theirs.model, requests, Scene.ALONE)
    sampler = None
    if ours.sample and theirs.sample:
        sampler = compare_samplers(ours.sample, theirs.sample, contexts_of(alone, _CONTEXTS), seed=seed)
    update: dict[str, Any] = {
        "agreement": agreement_of(alone, other, noise.exact, noise.limits.noise),
        "perplexity": perplexity_of(requests, alone, other),
        "generation": generation_of(ours.model, theirs.model, requests, steps),
        "sampler": sampler,
    }
    if sampler and sampler.p_value < DRIFTED:
        drawn = f"of token {sampler.token}: {sampler.changed:.3g}, natively {sampler.native:.3g} (p {sampler.p_value:.2g})"
        said = f"the sampler draws another share {drawn}"
        before = f"{found.reason}; " if found.outcome is Outcome.DRIFTED else ""
        update |= {"outcome": Outcome.DRIFTED, "reason": before + said}
    return found.model_copy(update=update)


def drift_of_calls(
    native: Any,
    changed: Any,
    inputs: Sequence[tuple[Any, ...]],
    *,
    draws: int = 12,
    seed: int = 0,
    kernels: Mapping[str, str] | None = None,
) -> Drift:
    """Compare any two callables on the same inputs: a tensor in, a tensor out, whatever it means.

    Args:
        native: The native callable.
        changed: The changed one.
        inputs: Arguments of each call. The last axis of an output is its features, the others are positions.
        draws: Honest reorderings of the native one.
        seed: Seed of them.
        kernels: Names of kernels by the path of the submodule that each is in.

    Example:
        >>> x = torch.linspace(-3, 3, 64).view(4, 16)
        >>> drift_of_calls(nn.GELU(), nn.GELU(approximate="tanh"), [(x,)], draws=4).outcome.value
        'drifted'
    """
    if not inputs:
        raise InputError("no inputs were given; expected the arguments of at least one call")

    def exam(model: Any, scene: Scene) -> list[Tensor]:
        del scene
        wide = isinstance(model, nn.Module) and any(p.dtype is torch.float64 for p in model.parameters())
        wide = wide or torch.get_default_dtype() is torch.float64
        with torch.no_grad():
            return [_rows(model(*(_widened(a) if wide else a for a in one))) for one in inputs]

    return compare(noise_of(native, exam, (Scene.ALONE,), draws=draws, seed=seed), changed, (Scene.ALONE,), kernels)


def compare(
    noise: Noise, changed: Any, scenes: Sequence[Scene], kernels: Mapping[str, str] | None = None
) -> Drift:
    """Put a changed model through the exam and judge its errors by the native model's noise."""
    found = [_scene_drift(noise, changed, scene) for scene in scenes]
    worst = max(found, key=lambda s: s.excess)
    outcome, reason = _judged(noise, worst)
    cause = None
    both = isinstance(noise.native, nn.Module) and isinstance(changed, nn.Module)
    if outcome is Outcome.DRIFTED and both:
        scene = Scene(worst.scene)

        def drifts(model: nn.Module) -> bool:
            return _excess(noise, noise.exam(model, scene), DRIFTED) > 1

        cause = find_cause(noise.native, changed, drifts, kernels=kernels)
        reason = f"{reason}; cause: {cause}"
    size = torch.cat([e.pow(2).mean(-1).sqrt() for e in noise.exact]).mean()
    return Drift(
        outcome=outcome, reason=reason, dtype=str(dtype_of(noise.native)).removeprefix("torch."), scenes=tuple(found),
        limits={name: noise.limits.limit(name, DRIFTED) for name in ("largest", "overall")},
        noise=float(noise.limits.noise.pow(2).mean().sqrt() / size),
        layers=layer_errors(
            noise.native, changed, exact_of(noise.native), lambda model: noise.exam(model, scenes[0])
        ) if both else (),
        cause=cause,
    )  # fmt: skip


def _judged(noise: Noise, worst: SceneDrift) -> tuple[Outcome, str]:
    if noise.problem:
        return Outcome.INCONCLUSIVE, noise.problem
    where = f"served {worst.scene}, position {worst.position} of request {worst.request}"
    error = f"an error of {worst.largest:.3g} times the native model's noise ({worst.overall:.3g} overall; {where})"
    if worst.excess > 1:
        return Outcome.DRIFTED, f"{error}, beyond what an honest evaluation reaches"
    if worst.excess * _gap(noise) > 1:
        return Outcome.INCONCLUSIVE, f"{error}, more than most honest evaluations; serve more requests, or draw more"
    return Outcome.SAME, f"at most {error.removeprefix('an ')}, as an honest evaluation"


def _gap(noise: Noise) -> float:
    """Return how far apart the two limits are, as a ratio; the nearer of both statistics."""
    return min(
        noise.limits.limit(name, DRIFTED) / noise.limits.limit(name, SAME) for name in ("largest", "overall")
    )


def _scene_drift(noise: Noise, changed: Any, scene: Scene) -> SceneDrift:
    outputs = noise.exam(changed, scene)
    again = noise.exam(changed, scene)
    errors = _errors(noise, outputs)
    ratios = errors / noise.limits.noise
    statistics, own = (
        statistics_of(e, noise.limits.noise) for e in (errors, errors_of(noise.served[scene], noise.exact))
    )
    lengths = [len(y) for y in noise.exact]
    at = int(ratios.argmax())
    request = next(n for n in range(len(lengths)) if at < sum(lengths[: n + 1]))
    beyond = ratios > noise.limits.limit("largest", DRIFTED)
    places = torch.cat([torch.arange(n) for n in lengths])
    return SceneDrift(
        scene=scene.value, largest=_finite(statistics.largest), overall=_finite(statistics.overall), native=own.overall,
        excess=_finite(noise.limits.excess(statistics, DRIFTED)), request=request, position=int(places[at]),
        first=int(places[beyond].min()) if beyond.any() else -1, beyond=float(beyond.double().mean()),
        deterministic=all(torch.equal(a, b) for a, b in zip(outputs, again, strict=True)),
    )  # fmt: skip


def _errors(noise: Noise, outputs: Sequence[Tensor]) -> Tensor:
    wrong = [tuple(y.shape) for y, e in zip(outputs, noise.exact, strict=False) if y.shape != e.shape]
    if wrong or len(outputs) != len(noise.exact):
        raise InputError(
            f"the changed model returned outputs of {wrong or len(outputs)}; the native one returns "
            f"{[tuple(e.shape) for e in noise.exact]}"
        )
    return errors_of(outputs, noise.exact)


def _excess(noise: Noise, outputs: Sequence[Tensor], chance: float) -> float:
    return noise.limits.excess(statistics_of(_errors(noise, outputs), noise.limits.noise), chance)


def _finite(value: float) -> float:
    """Return a number that JSON can hold."""
    return value if math.isfinite(value) else 1e300


def _serving(requests: Requests) -> Exam:
    return lambda model, scene: serve(model, requests, scene)


def _rows(output: Any) -> Tensor:
    """Return an output as (positions, features)."""
    output = output[0] if isinstance(output, tuple) else output
    if not isinstance(output, Tensor) or not output.is_floating_point():
        raise InputError(f"a call returned {type(output).__name__}; expected a tensor of floats")
    return output.reshape(-1, output.shape[-1]) if output.dim() else output.reshape(1, 1)


def _widened(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
