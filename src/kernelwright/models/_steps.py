"""Model, accepted step, optimizer → StepsOutcome: whole training steps in turns with the native ones.

Covers: forward, backward and the optimizer as their owner runs them, ours and the native ones in random order on the
same inputs, on one thread; weights after some steps, as near those of float64 as the native ones.
Does not cover: times on several threads, which on a busy machine are those of waiting; models whose random numbers are
others in float64 (noise, not dropout), whose steps stay undecided.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..errors import InputError, known_names
from ..records import DecisionStatus
from ..tasks import one_thread
from ..tasks.capture import quiet
from ._in_turns import Way, decision_on, fastest, in_turns, ratio_of
from ._install import patch
from ._joint import TrainedWhole
from ._optimizer_patch import OptimizerPatch
from ._records import ModelResult, StepsOutcome
from ._target import Loaded

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters, lr=1e-3),
}
"""Native optimizers by name, in their fastest form."""
_COMPARED_STEPS = 5
_ERROR_FACTOR, _OF_MOVED = 4.0, 1e-5
"""Of the native error, and of how far the weights have moved, what may be between ours and float64."""


def check_optimizer(name: str) -> None:
    """Raise an `InputError` for a name that is no optimizer's here."""
    if name not in OPTIMIZERS:
        raise InputError(f"no optimizer is called {name!r}; {known_names(name, OPTIMIZERS)}")


def judged_steps(
    loaded: Loaded, result: ModelResult, optimizer: str, *, store: Path | str | None = None, seconds: float = 20.0
) -> StepsOutcome:  # fmt: skip
    """Judge whole training steps: the accepted program, if there is one, and the patched optimizer.

    Args:
        loaded: The model, in training mode.
        result: What was accepted for its forward and backward.
        optimizer: Name of the optimizer.
        store: Folder of the run store; by default the user's.
        seconds: About how long to time for.

    Raises:
        InputError: no optimizer of that name.
    """
    check_optimizer(optimizer)
    with torch.random.fork_rng(devices=[]), quiet():
        alike = all(one.sampler == "bernoulli_" for one in result.step.drawn)
        wrong = _wrong(loaded, result, optimizer, store) if alike else ""
        ways = {
            "eager": _native(loaded, optimizer, loaded.module),
            "compile": _native(loaded, optimizer, loaded.module, compiled=True),
            "ours": _ours(loaded, result, optimizer, store)[0],
        }
        with one_thread():
            times = in_turns(ways, seconds)
        torch._dynamo.reset()
    baseline = fastest(times, ("eager", "compile"))
    speedup = ratio_of(times[baseline], times["ours"])
    status, reason = decision_on(speedup)
    if not alike:
        status = DecisionStatus.INCONCLUSIVE
        reason = "its random numbers are others in float64, so that weights cannot be compared"
    elif wrong:
        status, reason = DecisionStatus.REJECTED, wrong
    return StepsOutcome(
        optimizer=optimizer, decision=status, speedup=speedup, baseline=baseline, reason=reason,
        step_us={way: median(spent) for way, spent in times.items()},
    )  # fmt: skip


def _wrong(loaded: Loaded, result: ModelResult, optimizer: str, store: Path | str | None) -> str:
    """Say which weights are further from float64 than the native ones allow after some steps; nothing if none are."""
    wide = copy.deepcopy(loaded.module).double()
    native = copy.deepcopy(loaded.module)
    step, ours = _ours(loaded, result, optimizer, store)
    for module, call in (
        (wide, _native(loaded, optimizer, wide, own=True)),
        (native, _native(loaded, optimizer, native, own=True)),
        (ours, step),
    ):
        module.load_state_dict(loaded.module.state_dict())
        for number in range(_COMPARED_STEPS):
            torch.default_generator.manual_seed(number)
            call()
    start = dict(loaded.module.named_parameters())
    for name, right in wide.named_parameters():
        off, allowed = (
            float((module.get_parameter(name).detach().double() - right.detach()).norm())
            for module in (ours, native)
        )
        moved = float((right.detach() - start[name].detach().double()).norm())
        if not off <= _ERROR_FACTOR * allowed + _OF_MOVED * moved:
            return f"after {_COMPARED_STEPS} steps {name!r} is {off:.3g} off float64, the native one {allowed:.3g}"
    return ""


def _native(
    loaded: Loaded, optimizer: str, module: nn.Module, *, own: bool = False, compiled: bool = False
) -> Way:
    """Return a native step on a copy of a module, or on its own weights."""
    module = module if own else copy.deepcopy(module)
    made = OPTIMIZERS[optimizer](module.parameters())
    return _stepping(loaded, module, made, compiled=compiled)


def _ours(
    loaded: Loaded, result: ModelResult, optimizer: str, store: Path | str | None
) -> tuple[Way, nn.Module]:
    """Return a step with what was accepted, and the module that it trains."""
    module = copy.deepcopy(loaded.module)
    made = OPTIMIZERS[optimizer](module.parameters())
    OptimizerPatch(made)
    if result.improved:
        patch(module, result, store=store)
        module(*loaded.args, **loaded.kwargs)  # the first call is native
    return _stepping(loaded, module, made), module


def _stepping(
    loaded: Loaded, module: nn.Module, optimizer: torch.optim.Optimizer, *, compiled: bool = False
) -> Way:
    wide = next(module.parameters()).dtype is torch.float64

    def given(value: torch.Tensor) -> torch.Tensor:
        return value.double() if wide and value.is_floating_point() else value.clone()

    args, kwargs = pytree.tree_map_only(torch.Tensor, given, (loaded.args, loaded.kwargs))
    whole = TrainedWhole(module, args, kwargs)
    call = torch.compile(whole) if compiled else whole

    def step() -> None:
        optimizer.zero_grad()
        results: tuple[torch.Tensor, ...] = call(*whole.tensors)
        results[whole.loss].backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    whole(*whole.tensors)  # finds the loss, which a compiled call does not tell
    return step
