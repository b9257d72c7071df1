"""robust-kbench's rules: the kernel before the reference and again after it, on new modules under one seed.

Covers: seeds of trials, order of calls, both comparisons, gradients of parameters and inputs of a backward pass, each
of a task's several shapes and initialisations, filters of tasks by their outputs.
Does not cover: CUDA sources, events of a device, the number of timed calls, the filter that asks a language model.

Source: robust-kbench, robust_kbench/sandbox/correct_forward_fn.py and correct_backward_fn.py, config_task.py,
filter/forward.py.
"""

import inspect
import random
from typing import Any

import numpy as np
import torch

from .clock import mean_us

_WARM_UP = 25
_FILTER_SEEDS, _LITTLE = 5, 0.01
"""As run_filter.py has them: draws of a task, and below what an output or its deviation says nothing."""


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, trials passed and mean times in microseconds; `given` as for KernelBench, and `backward`."""
    context: dict[str, Any] = dict(given["globals"])
    exec(given["reference"], context)
    try:
        exec(given["submission"], context)
        if given["backward"]:
            context["AutogradFunction"].backward_fn = staticmethod(context["backward_fn"])
        new = context["Model"] if given["backward"] else context["ModelNew"]
    except Exception as error:  # noqa: BLE001  whatever it is, the kernel is not there
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    torch.manual_seed(given["seed"])
    seeds = [int(torch.randint(0, 2**32 - 1, (1,)).item()) for _ in range(given["trials"])]
    compare, passed, trials = _gradients if given["backward"] else _outputs, 0, 0
    flags = [*given.get("said", ()), *([] if given["backward"] else _caught(context))]
    settings = [None, *given.get("settings", ())]
    for number, setting in enumerate(settings):
        with_setting = context if setting is None else _set(context, setting)
        if number and not _runs(with_setting):
            continue  # shrunk sizes that the task's own reference does not take
        trials += len(seeds)
        try:
            for seed in seeds:
                passed += compare(with_setting, new, seed, given["tolerance"])
        except Exception as error:  # noqa: BLE001  the benchmark counts any as wrong
            return {"status": "error", "passed": passed, "message": f"{type(error).__name__}: {error}"}
        if passed < trials:
            said = f"output mismatch with {setting}" if number else "output mismatch"
            return {"passed": passed, "trials": trials, "flags": flags, "status": "wrong", "message": said}
    found: dict[str, Any] = {"passed": passed, "trials": trials, "flags": flags}
    times = [_mean_us(context, made, seeds[0], given) for made in (new, None)]
    return found | {"status": "correct", "time_us": times[0], "reference_us": times[1]}


def _set(context: dict[str, Any], setting: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the context with inputs and initialisation of another setting."""
    draw, model = context["kw_draw"], context["Model"]
    taken = {k: v for k, v in setting["inputs"].items() if k in inspect.signature(draw).parameters}
    wanted = inspect.signature(model).parameters
    bound = inspect.signature(model).bind(**{k: v for k, v in setting["init"].items() if k in wanted})
    bound.apply_defaults()
    return {**context, "get_inputs": lambda: draw(**taken), "get_init_inputs": lambda: list(bound.args)}


def _runs(context: dict[str, Any]) -> bool:
    try:
        with torch.no_grad():
            context["Model"](*context["get_init_inputs"]())(*context["get_inputs"]())
    except Exception:  # noqa: BLE001  the task's own reference
        return False
    return True


def _caught(context: dict[str, Any]) -> list[str]:
    """Name the benchmark's filters that leave a task out, by outputs of its reference under several seeds."""
    with torch.no_grad():
        fresh = torch.stack([_reference(context, seed, seed) for seed in range(_FILTER_SEEDS)])
        fixed = torch.stack([_reference(context, seed, 42) for seed in range(_FILTER_SEEDS)])
    axes = [fresh.std(dim=axis) for axis in range(fresh.ndim)]
    caught = {
        "filter: output range": bool((fresh.abs() < _LITTLE).all()),
        "filter: output deviation": bool((axes[0] < _LITTLE).all()),
        "filter: output axes": any(bool((std < _LITTLE).all()) for std in axes),
        "filter: input impact": bool((fixed.std(dim=0) < _LITTLE).all()),
    }
    return [name for name, catches in caught.items() if catches]


def _reference(context: dict[str, Any], seed: int, weights: int) -> Any:
    inputs = _seeded(seed, context["get_inputs"])
    return _seeded(weights, lambda: context["Model"](*context["get_init_inputs"]()))(*inputs).float()


def _outputs(context: dict[str, Any], new: Any, seed: int, tolerance: float) -> bool:
    with torch.no_grad():
        inputs = _seeded(seed, context["get_inputs"])
        reference = _seeded(seed, lambda: context["Model"](*context["get_init_inputs"]()))
        kernel = _seeded(seed, lambda: new(*context["get_init_inputs"]()))
        first, expected, second = kernel(*inputs), reference(*inputs), kernel(*inputs)
    return all(torch.allclose(expected, one, atol=tolerance, rtol=tolerance) for one in (first, second))


def _gradients(context: dict[str, Any], new: Any, seed: int, tolerance: float) -> bool:
    del new
    kernel = _backward(context, seed, fn=context["AutogradFunction"].apply)
    reference = _backward(context, seed)
    if set(kernel) != set(reference):
        raise ValueError(f"gradients of {sorted(set(kernel) ^ set(reference))} on one side alone")
    return all(
        kernel[name].shape == reference[name].shape
        and torch.allclose(kernel[name], reference[name], atol=tolerance, rtol=tolerance)
        for name in kernel
    )


def _backward(context: dict[str, Any], seed: int, **calling: Any) -> dict[str, torch.Tensor]:
    inputs = _seeded(seed, context["get_inputs"])
    model = _seeded(seed, lambda: context["Model"](*context["get_init_inputs"]()))
    output = model(*inputs, **calling)
    output.backward(_seeded(seed, lambda: torch.randn_like(output)))
    named = {f"param_{n}": p.grad for n, p in model.named_parameters()}
    named |= {f"input_{i}": x.grad for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)}
    return {name: gradient for name, gradient in named.items() if gradient is not None}


def _mean_us(context: dict[str, Any], made: Any, seed: int, given: dict[str, Any]) -> float:
    """Time the kernel, or the reference if `made` is None."""
    if given["backward"]:
        fn = {"fn": context["AutogradFunction"].apply} if made is not None else {}
        return mean_us(lambda: _backward(context, seed, **fn), given["timed"], _WARM_UP)
    with torch.no_grad():
        inputs = _seeded(seed, context["get_inputs"])
        model = _seeded(seed, lambda: (made or context["Model"])(*context["get_init_inputs"]()))
        return mean_us(lambda: model(*inputs), given["timed"], _WARM_UP)


def _seeded(seed: int, make: Any) -> Any:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    return make()
