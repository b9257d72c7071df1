"""Sizes that matter, with weights → programs for each, and one decision by the weighted time of them all.

Covers: a model whose `build` takes sizes by name; programs that serve the sizes they were accepted at, each faster
there than the best native form, so that no workload becomes slower; a decision by the time of all calls together.
Does not cover: sizes between those named, which stay native; sizes that change the model's weights, which are refused.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..records import Contract, DecisionStatus, Interval
from ..store import Store
from ._clock import Clock, HostClock, clock_of
from ._device import device_of_models, moved
from ._joint import TrainedWhole
from ._optimize import optimize_model
from ._records import SIZED_RESULT, ModelResult, SizedOutcome, SizedResult
from ._target import Loaded, ModelTarget, load_model, named_at, unchanged
from ._training import optimize_training, set_training

_CALLS = 7
"""Calls of which the fastest is a model's time in eager torch."""
_LEAST_SHARE = 0.25
"""Of the minutes of equal parts, what sizes get at least, however little of the time they take."""


@dataclass(frozen=True)
class Sizes:
    """Sizes that a model is called at, and how often."""

    sizes: dict[str, int]
    """Arguments of the function that builds the model, by name."""
    weight: float
    """Share of the calls; the weights of all need not add up to one."""

    @property
    def name(self) -> str:
        """Readable name: `batch=1,seq=64`."""
        return ",".join(f"{name}={size}" for name, size in self.sizes.items())


def sizes_of(text: str) -> Sizes:
    """Read sizes and their weight.

    Raises:
        InputError: the text is none of that form.

    Example:
        >>> sizes_of("batch=1,seq=64:80")
        Sizes(sizes={'batch': 1, 'seq': 64}, weight=80.0)
    """
    names, _, weight = text.partition(":")
    try:
        pairs = [pair.split("=") for pair in names.split(",")]
        sizes, share = {name.strip(): int(size) for name, size in pairs}, float(weight or 1.0)
    except ValueError:
        raise InputError(
            f"{text!r} names no sizes; expected NAME=SIZE,...:WEIGHT, as in batch=1,seq=64:80"
        ) from None
    if not (0 < share < float("inf")) or min(sizes.values()) < 1 or not all(n.isidentifier() for n in sizes):
        raise InputError(
            f"{text!r} has a size or weight that is none; expected whole sizes of at least 1 and a weight above 0"
        )
    return Sizes(sizes, share)


def optimize_sizes(
    target: ModelTarget,
    sizes: Sequence[Sizes],
    *,
    minutes: float = 10.0,
    store: Path | str | None = None,
    training: bool = False,
    optimize: Callable[..., ModelResult] | None = None,
    **options: Any,
) -> SizedResult:
    """Make a model faster at the sizes that matter, and decide by the time of all its calls together.

    For each workload the model is optimised and judged like a model of its own, in the part of the minutes that its
    part of the weighted time is. Where nothing is accepted it stays native, and counts with its native time.

    Args:
        target: `file.py:build` or a function; it takes the sizes by name and returns `(module, inputs)`.
        sizes: The sizes with their weights, at least two.
        minutes: Wall minutes for all of them.
        store: Folder of the run store; by default the user's.
        training: Whether it is the model's training that is made faster.
        optimize: Optimises at one of the sizes; for tests.
        options: What else `optimize_model` or `optimize_training` takes.

    Raises:
        InputError: fewer than two sizes, or the same twice.
        TaskError: the function does not take these sizes, or makes other weights at some.
    """
    begun = time.monotonic()
    optimize = optimize or (optimize_training if training else optimize_model)
    loaded = loaded_at(target, sizes)
    used = device_of_models(options.get("device"))
    eager_us = [eager_us_of(moved(one, used.torch_device), training, clock_of(used)) for one in loaded]
    total = sum(one.weight for one in sizes)
    spent = [one.weight * us for one, us in zip(sizes, eager_us, strict=True)]
    outcomes = []
    for place, (one, model, us) in enumerate(zip(sizes, loaded, eager_us, strict=True)):
        left = minutes - (time.monotonic() - begun) / 60
        found = optimize(model, minutes=max(left * part_of(spent[place:]), 0.1), store=store, **options)
        outcomes.append(SizedOutcome(sizes=one.sizes, weight=one.weight / total, eager_us=us, result=found))
    result = decided(
        loaded[0].name.removesuffix(named_at("", sizes[0].sizes)), outcomes, time.monotonic() - begun
    )
    with Store(store) as kept:
        kept.keep(SIZED_RESULT, result.origin, {result.origin: result.to_json()})
    return result


def loaded_at(target: ModelTarget, sizes: Sequence[Sizes]) -> list[Loaded]:
    """Return a model at each of the sizes.

    Raises:
        InputError: fewer than two sizes, or the same twice; or they cannot be told apart.
        TaskError: the function does not take these sizes, or makes other weights at some.
    """
    if len(sizes) < 2 or len({one.name for one in sizes}) < len(sizes):
        raise InputError(f"{[one.name for one in sizes]} are not two or more different sizes; name each once")
    loaded = [load_model(target, sizes=one.sizes) for one in sizes]
    _check_alike(loaded, sizes)
    return loaded


def part_of(spent: Sequence[float]) -> float:
    """Return the part of the minutes for the first of several sizes, by the time that the calls of each take.

    Example:
        >>> part_of([3.0, 1.0]), part_of([0.0, 1.0]), part_of([2.0])
        (0.75, 0.125, 1.0)
    """
    return max(spent[0] / sum(spent), _LEAST_SHARE / len(spent)) if len(spent) > 1 else 1.0


def decided(model: str, outcomes: Sequence[SizedOutcome], seconds: float = 0.0) -> SizedResult:
    """Decide by the time of all calls together, each workload by its weight."""
    status, reason = DecisionStatus.IMPROVED, ""
    median, low, high = (weighted(outcomes, end) for end in ("median", "low", "high"))
    least = 1.0 + Contract().least_effect
    if not any(one.result.improved for one in outcomes):
        status, reason = DecisionStatus.INCONCLUSIVE, "nothing was accepted at any of the sizes"
    elif low <= least:
        status = DecisionStatus.EQUAL
        reason = (
            f"of all calls together the gain may be as small as {low:.3f} times; above {least:g} would count"
        )
    return SizedResult(
        model=model, decision=status, speedup=Interval(median=median, low=low, high=high),
        outcomes=tuple(outcomes), reason=reason, seconds=seconds,
    )  # fmt: skip


def weighted(outcomes: Sequence[SizedOutcome], end: str) -> float:
    """Return how many times less all calls take together, by an end of each interval; native ones count as they are."""
    before = [one.weight * one.native_us for one in outcomes]
    after = [us / one.ratio(end) for us, one in zip(before, outcomes, strict=True)]
    return sum(before) / sum(after)


def _check_alike(loaded: Sequence[Loaded], sizes: Sequence[Sizes]) -> None:
    """Refuse models of other weights, and calls that cannot be told apart."""
    forms = [
        {name: (tuple(t.shape), str(t.dtype)) for name, t in one.module.state_dict().items()}
        for one in loaded
    ]
    for one, form in zip(sizes, forms, strict=True):
        if unlike := sorted(set(form.items()) ^ set(forms[0].items())):
            raise InputError(
                f"at {one.name} the model has other weights than at {sizes[0].name}, such as {unlike[0][0]!r}; "
                "sizes must change the inputs alone"
            )
    calls = [tuple(tuple(t.shape) for t in one.whole.tensors) for one in loaded]
    for place, call in enumerate(calls):
        if call in calls[:place]:
            raise InputError(
                f"the inputs at {sizes[place].name} have the sizes of those at {sizes[calls.index(call)].name}"
            )


def eager_us_of(loaded: Loaded, training: bool = False, clock: Clock | None = None) -> float:
    """Return the least microseconds of a call in eager torch, with its backward pass if it is trained."""
    clock = clock or HostClock()
    whole, times = loaded.whole, list[float]()
    trained = None
    if training:
        set_training(loaded)
        trained = TrainedWhole(loaded.module, loaded.args, loaded.kwargs)
    with torch.set_grad_enabled(training), unchanged(whole), torch.random.fork_rng(devices=[]):
        for _ in range(_CALLS):
            begun = clock.mark()
            if trained is None:
                whole(*whole.tensors)
            else:
                trained.differentiated()
            ended = clock.mark()
            clock.settle()
            times.append(clock.between_us(begun, ended))
    return min(times)
