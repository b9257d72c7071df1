"""robust-kbench's rules: the kernel before the reference and again after it, on new modules under one seed.

Covers: seeds of trials, order of calls, both comparisons, gradients of parameters and inputs of a backward pass.
Does not cover: CUDA sources, events of a device, several configurations, the number of timed calls.

Source: robust-kbench, robust_kbench/sandbox/correct_forward_fn.py and correct_backward_fn.py.
"""

import random
from typing import Any

import numpy as np
import torch

from .clock import mean_us

_WARM_UP = 25


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
    compare, passed = _gradients if given["backward"] else _outputs, 0
    try:
        for seed in seeds:
            passed += compare(context, new, seed, given["tolerance"])
    except Exception as error:  # noqa: BLE001  the benchmark counts any as wrong
        return {"status": "error", "passed": passed, "message": f"{type(error).__name__}: {error}"}
    found: dict[str, Any] = {"passed": passed, "trials": len(seeds)}
    if passed < len(seeds):
        return found | {"status": "wrong", "message": "output mismatch"}
    times = [_mean_us(context, made, seeds[0], given) for made in (new, None)]
    return found | {"status": "correct", "time_us": times[0], "reference_us": times[1]}


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
