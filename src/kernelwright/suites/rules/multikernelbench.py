"""MultiKernelBench's rules: correctness on draws of one generator, then timed calls of models made anew.

Covers: seeds, inputs in groups where a problem has them, tuples of outputs, warm-up and timed calls.
Does not cover: events of a device, in whose place a CPU has the host's clock.

Source: MultiKernelBench, utils/correctness.py (`execute_template`) and utils/performance.py.
"""

from typing import Any

import torch

from .clock import each_us

_WARM_UP = 3


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, trials passed and mean times in microseconds; `given` as for KernelBench."""
    context: dict[str, Any] = dict(given["globals"])
    exec(given["reference"], context)
    try:
        exec(given["submission"], context)
        context["ModelNew"]
    except Exception as error:  # noqa: BLE001  the benchmark counts any as not compiled
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    passed = 0
    try:
        with torch.no_grad():
            init = context["get_init_inputs"]()
            torch.manual_seed(given["seed"])
            reference = context["Model"](*init)
            torch.manual_seed(given["seed"])
            candidate = context["ModelNew"](*init)
            trials = _trials(context, given["trials"])
            for inputs in trials:
                said = _compare(reference(*inputs), candidate(*inputs), given["tolerance"])
                if said:
                    return {"status": "wrong", "passed": passed, "trials": len(trials), "message": said}
                passed += 1
    except Exception as error:  # noqa: BLE001  the benchmark counts any as wrong
        return {"status": "error", "passed": passed, "message": f"{type(error).__name__}: {error}"}
    times = {name: _mean_us(context, entry, given["timed"]) for name, entry in _TIMED.items()}
    return {"status": "correct", "passed": passed, "trials": len(trials), **times}


_TIMED = {"time_us": "ModelNew", "reference_us": "Model"}


def _trials(context: dict[str, Any], count: int) -> list[Any]:
    if "get_input_groups" in context:
        return list(context["get_input_groups"]())
    return [context["get_inputs"]() for _ in range(count)]


def _compare(expected: Any, output: Any, tolerance: float) -> str:
    """Say what differs; empty if nothing does."""
    if isinstance(expected, torch.Tensor) and isinstance(output, torch.Tensor):
        if expected.shape != output.shape:
            return f"shape {tuple(output.shape)} instead of {tuple(expected.shape)}"
        if torch.bool in {expected.dtype, output.dtype}:
            return "" if torch.equal(expected, output) else "output mismatch"
        return "" if torch.allclose(expected, output, atol=tolerance, rtol=tolerance) else "output mismatch"
    if isinstance(expected, tuple | list) and isinstance(output, tuple | list):
        if len(expected) != len(output):
            return f"{len(output)} outputs instead of {len(expected)}"
        pairs = zip(expected, output, strict=True)
        return next((said for e, o in pairs if (said := _compare(e, o, tolerance))), "")
    return "" if expected == output else "output mismatch"


def _mean_us(context: dict[str, Any], entry: str, count: int) -> float:
    grouped = "get_input_groups" in context
    inputs = context["get_input_groups"]()[0] if grouped else context["get_inputs"]()
    with torch.no_grad():
        call = context[entry](*context["get_init_inputs"]())
        times = each_us(lambda: call(*inputs), count, _WARM_UP)
    return sum(times) / len(times)
