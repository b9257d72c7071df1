"""Liger-Kernel's rules: one draw compared elementwise, then the median of timed calls.

Covers: the comparison by absolute and relative tolerances of the dtype, NaN and infinities by place, equal weights.
Does not cover: backward passes, Triton's do_bench and its flush of a cache, peak memory.

Source: linkedin/Liger-Kernel, test/utils.py (`assert_verbose_allclose`), test/transformers/test_rms_norm.py and
benchmark/scripts/utils.py (`run_speed_benchmark`).
"""

import statistics
from typing import Any

import torch

from .clock import each_us

_WARM_UP = 25
_COARSE = (2e-1, 2e-2)
"""Absolute and relative tolerance of half precision."""
_RELATIVE = 1e-6


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status and median times in microseconds; `given` as for KernelBench."""
    native: dict[str, Any] = {}
    exec(given["reference"], native)
    context = native | given["globals"]
    found: dict[str, Any] = {"trials": 1}
    try:
        exec(given["submission"], context)
        reference = native["Model"]()
        kernel = context["ModelNew"]()
        kernel.load_state_dict(reference.state_dict())
    except Exception as error:  # noqa: BLE001  whatever it is, the kernel is not there
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    with torch.no_grad():
        torch.manual_seed(given["seed"])
        inputs = native["get_inputs"]()
        try:
            differing = _differing(reference(*inputs), kernel(*inputs), given["tolerance"])
            time_us = 0.0 if differing else _median_us(kernel, inputs, given["timed"])
        except Exception as error:  # noqa: BLE001  its tests count any as a failure
            return found | {"status": "error", "message": f"{type(error).__name__}: {error}"}
        if differing:
            return found | {"status": "wrong", "message": differing}
        reference_us = _median_us(reference, inputs, given["timed"])
    return found | {"status": "correct", "passed": 1, "time_us": time_us, "reference_us": reference_us}


def _differing(expected: Any, output: Any, tolerance: float) -> str:
    """Say what differs; empty if nothing does."""
    if isinstance(expected, list | tuple):
        said = (_differing(e, o, tolerance) for e, o in zip(expected, output, strict=True))
        return next(filter(None, said), "")
    if expected.shape != output.shape:
        return f"shape {tuple(output.shape)} instead of {tuple(expected.shape)}"
    halves = expected.dtype in (torch.bfloat16, torch.float16)
    absolute, relative = _COARSE if halves else (tolerance, _RELATIVE)
    far = torch.abs(expected - output) > absolute + relative * torch.abs(output)
    for odd in (torch.isnan, torch.isposinf, torch.isneginf):
        far |= odd(expected) ^ odd(output)
    return f"{int(far.sum())} elements differ" if far.any() else ""


def _median_us(call: Any, inputs: list[Any], count: int) -> float:
    return statistics.median(each_us(lambda: call(*inputs), count, _WARM_UP))
