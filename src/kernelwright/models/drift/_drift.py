"""Compare a changed model with its native form as deployed, and say whether it drifted and where."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...tasks.numerics._oracle import widen
from ._answered import answered, patched_paths, patches_in
from ._cause import find_cause
from ._decoder import deployment_of
from ._exam import Exam, Noise, noise_of
from ._layers import layer_errors
from ._limits import DRIFTED, SAME, Statistics, errors_of, statistics_of
from ._measures import agreement_of, generation_of, perplexity_of
from ._noise import dtype_of, exact_of
from ._result import Drift, Outcome, SceneDrift
from ._sampler import compare_samplers, contexts_of
from ._serve import DEPLOYED, Requests, Scene, own_text, serve, vocabulary_of

LENGTHS = (5, 12, 33, 64)
"""Lengths of the requests that the native model writes itself."""
STEPS = 8
"""Tokens at the end of each request that are decoded one by one."""
_CONTEXTS = 8


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
    exact: bool = True,
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
        exact: Also run the changed model in float64, where it can be. Turn it off for kernels that round to half
            precision inside whatever dtype they are given.
        noise: The native model's noise on these requests, if it was measured before.

    Raises:
        InputError: a model is none, or its logits have the wrong shape.

    Example:
        >>> embed = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
        >>> drift(embed, embed, lengths=(4, 6), draws=4).outcome.value
        'same'
    """
    ours, theirs = deployment_of(native), deployment_of(changed)
    _check(ours.model, theirs.model, requests)
    if noise is None:
        requests = requests or own_text(ours.model, lengths, steps, seed)
        noise = noise_of(ours.model, _serving(requests), DEPLOYED, draws=draws, seed=seed)
    elif requests is None:
        raise InputError("a noise was given without the requests it was measured on; pass both")
    found = compare(noise, theirs.model, kernels, exact=exact)
    alone, other = noise.served[Scene.ALONE], serve(theirs.model, requests, Scene.ALONE)
    if [y.shape for y in other] != [y.shape for y in noise.exact]:
        raise InputError(
            f"requests gave outputs of {[tuple(y.shape) for y in other]}; the noise was measured on outputs of "
            f"{[tuple(y.shape) for y in noise.exact]}"
        )
    sampler = None
    if ours.sample and theirs.sample:
        sampler = compare_samplers(ours.sample, theirs.sample, contexts_of(alone, _CONTEXTS), seed=seed)
    update: dict[str, Any] = {
        "agreement": agreement_of(alone, other, noise.exact, noise.limits.noise),
        "perplexity": perplexity_of(requests, alone, other),
        "generation": generation_of(ours, theirs, requests, steps, seed),
        "sampler": sampler,
    }
    if sampler and sampler.p_value < DRIFTED:
        drawn = f"{sampler.changed:.3g} of draws, natively {sampler.native:.3g} (p {sampler.p_value:.2g})"
        said = f"the sampler chooses token {sampler.token} in {drawn}"
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
    exact: bool = True,
) -> Drift:
    """Compare any two callables on the same inputs: a tensor in, a tensor out, whatever it means.

    Args:
        native: The native callable.
        changed: The changed one.
        inputs: Arguments of each call. The last axis of an output is its features, the others are positions.
        draws: Honest reorderings of the native one.
        seed: Seed of them.
        kernels: Names of kernels by the path of the submodule that each is in.
        exact: Also run the changed one in float64, where it can be.

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
            return [_rows(model(*(widen(a) if wide else a for a in one))) for one in inputs]

    return compare(
        noise_of(native, exam, (Scene.ALONE,), draws=draws, seed=seed), changed, kernels, exact=exact
    )


def compare(
    noise: Noise, changed: Any, kernels: Mapping[str, str] | None = None, *, exact: bool = True
) -> Drift:
    """Put a changed model through the exam and judge its errors by the native model's noise.

    What `kw.patch` installed is served once before, since its first call is native, and not in float64, which its
    kernels do not know. If they answer no call that is served, nothing is concluded.

    Args:
        noise: The native model's noise.
        changed: The changed model.
        kernels: Names of kernels by the path of the submodule that each is in.
        exact: Also run it in float64, where it can be.
    """
    patched = patched_paths(changed)
    if patched:
        noise.exam(changed, noise.scenes[0])
        noise.exam(changed, noise.scenes[-1])
    found = [_scene_drift(noise, changed, scene) for scene in noise.scenes]
    both = isinstance(noise.native, nn.Module) and isinstance(changed, nn.Module)
    if exact and both and not patched:
        with suppress(
            RuntimeError, TypeError, NotImplementedError, ValueError
        ):  # a kernel that knows no float64
            found.append(_scene_drift(noise, changed, Scene.EXACT))
    outcome, reason, worst = _judged(noise, found)
    if patched:
        outcome, reason = _of_kernels(outcome, reason, found, changed)
    cause = None
    if outcome is Outcome.DRIFTED and both:
        scene = Scene(worst.scene)

        def drifts(model: nn.Module) -> bool:
            return (
                noise.limits.excess(statistics_of(noise.errors(model, scene), noise.limits.noise), DRIFTED)
                > 1
            )

        cause = find_cause(noise.native, changed, drifts, kernels=kernels)
        reason = f"{reason}; cause: {cause}"
    size = torch.cat([e.pow(2).mean(-1).sqrt() for e in noise.exact]).mean()
    return Drift(
        outcome=outcome, reason=reason, dtype=str(dtype_of(noise.native)).removeprefix("torch."), scenes=tuple(found),
        limits={name: noise.limits.limit(name, DRIFTED) for name in ("largest", "overall")},
        noise=float(noise.limits.noise.pow(2).mean().sqrt() / size),
        layers=layer_errors(
            noise.native, changed, exact_of(noise.native), lambda model: noise.exam(model, noise.scenes[0]), patched
        ) if both else (),
        cause=cause,
    )  # fmt: skip


def _judged(noise: Noise, found: Sequence[SceneDrift]) -> tuple[Outcome, str, SceneDrift]:
    """Return the outcome, why, and the scene that says most; one at the model's own dtype where that has drifted."""
    deployed = [scene for scene in found if scene.scene != Scene.EXACT]
    worst = max(deployed, key=lambda s: s.excess)
    exact = next((scene for scene in found if scene.scene == Scene.EXACT), None)
    if worst.excess <= 1 and exact and exact.excess > worst.excess:
        worst = exact
    if noise.problem:
        return Outcome.INCONCLUSIVE, noise.problem, worst
    of = "float32's noise, in float64" if worst is exact else "the native model's noise"
    where = f"served {worst.scene}, position {worst.position} of request {worst.request}"
    error = f"an error of {worst.largest:.3g} times {of} ({worst.overall:.3g} overall; {where})"
    if worst.excess > 1:
        same = ", though in float64 it computes the same" if exact and exact.excess <= 1 else ""
        within = f", though within the noise of {dtype_of(noise.native)}" if worst is exact else ""
        return Outcome.DRIFTED, f"{error}, beyond what an honest evaluation reaches{same}{within}", worst
    if noise.limits.excess(Statistics(worst.largest, worst.overall), SAME) > 1:
        said = f"{error}, more than most honest evaluations; serve more requests, or draw more"
        return Outcome.INCONCLUSIVE, said, worst
    return Outcome.SAME, f"at most {error}, as an honest evaluation", worst


def _of_kernels(
    outcome: Outcome, reason: str, found: Sequence[SceneDrift], changed: Any
) -> tuple[Outcome, str]:
    """Return outcome and reason of a patched model, by how many calls its kernels answered."""
    calls, native = (
        sum(getattr(one, name) or 0 for one in found) for name in ("kernel_calls", "native_calls")
    )
    if calls:
        return outcome, f"{reason}; kernels answered {calls} of {calls + native} calls"
    why = next(filter(None, (getattr(p, "reason", "") for p in patches_in(changed))), "")
    said = "its calls are not those that were verified; serve it at the verified sizes (`Padded`)"
    return Outcome.INCONCLUSIVE, f"kernels answered none of {native} calls: {why or said}"


def _scene_drift(noise: Noise, changed: Any, scene: Scene) -> SceneDrift:
    patches = patches_in(changed)
    before = answered(patches)
    errors = noise.errors(changed, scene)
    kernels, natives = (now - then for now, then in zip(answered(patches), before, strict=True))
    ratios = errors / noise.limits.noise
    found = statistics_of(errors, noise.limits.noise)
    at = int(ratios.argmax())
    owners = [(request, place) for request, y in enumerate(noise.exact) for place in range(len(y))]
    beyond = [
        place
        for (_, place), ratio in zip(owners, ratios, strict=True)
        if ratio > noise.limits.limit("largest", DRIFTED)
    ]
    own = 0.0
    if scene in noise.served:
        own = statistics_of(errors_of(noise.served[scene], noise.exact), noise.limits.noise).overall
    return SceneDrift(
        scene=scene.value, largest=_finite(found.largest), overall=_finite(found.overall), native=own,
        excess=_finite(noise.limits.excess(found, DRIFTED)), request=owners[at][0], position=owners[at][1],
        first=min(beyond, default=-1), beyond=len(beyond) / len(owners),
        deterministic=torch.equal(errors, noise.errors(changed, scene)),
        kernel_calls=kernels if patches else None, native_calls=natives if patches else None,
    )  # fmt: skip


def _finite(value: float) -> float:
    """Return a number that JSON can hold."""
    return value if math.isfinite(value) else 1e300


def _check(native: Any, changed: Any, requests: Requests | None) -> None:
    """Raise an `InputError` where models know other numbers of tokens, or requests hold one that they do not know."""
    known, other = vocabulary_of(native), vocabulary_of(changed)
    if known != other:
        raise InputError(f"the changed model knows {other} tokens; expected {known}, as the native one knows")
    if requests is not None and not all(
        0 <= int(row.min()) <= int(row.max()) < known for row in requests.tokens
    ):
        highest = max(int(row.max()) for row in requests.tokens)
        raise InputError(f"requests hold tokens up to {highest}; the models know 0 to {known - 1}")


def _serving(requests: Requests) -> Exam:
    def exam(model: Any, scene: Scene) -> list[Tensor]:
        return serve(model, requests, scene)

    return exam


def _rows(output: Any) -> Tensor:
    """Return an output as (positions, features)."""
    output = output[0] if isinstance(output, tuple) else output
    if isinstance(output, Tensor) and output.is_complex():
        output = torch.view_as_real(output.resolve_conj()).flatten(-2)
    if not isinstance(output, Tensor) or not output.is_floating_point():
        raise InputError(
            f"a call returned {type(output).__name__}; expected a tensor of floats or complex numbers"
        )
    return output.reshape(-1, output.shape[-1]) if output.dim() else output.reshape(1, 1)
