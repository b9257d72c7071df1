"""KernelBench-v3's rules: five public seeds, the greatest error against the greatest value, repeated calls.

Covers: seeds, modules made once with the reference's state where it fits, tolerances by the dtype of the first tensor,
finite answers, two calls that agree bit for bit, warm-up and timed calls.
Does not cover: CUDA events, and torch.compile as a baseline where it is faster than eager.

Source: Infatoshi/kernelbench.com, benchmarks/v3/src/eval/benchmark.py.
"""

import contextlib
import statistics
from typing import Any

import torch

from .clock import each_us

_SEEDS = (42, 123, 456, 789, 1337)
_WARM_UP = 5
_TOLERANCES = {
    torch.float32: (1e-3, 1e-3), torch.float16: (1e-2, 1e-2), torch.bfloat16: (1e-2, 1e-2),
    torch.float8_e4m3fn: (0.1, 0.05), torch.float8_e5m2: (0.1, 0.05),
}  # fmt: skip
_OTHER = (0.05, 0.02)


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, trials passed and median times in microseconds; `given` as for KernelBench."""
    problem: dict[str, Any] = {}
    exec(given["reference"], problem)
    space = dict(problem) | given["globals"]
    passed = 0
    try:
        exec(given["submission"], space)
        init = problem.get("get_init_inputs", list)()
        reference, kernel = (
            problem["Model"](*init).eval(),
            space.get("ModelNew", space["Model"])(*init).eval(),
        )
        with contextlib.suppress(Exception):
            kernel.load_state_dict(reference.state_dict(), strict=False)
        for seed in _SEEDS:
            torch.manual_seed(seed)
            if said := _differs(reference, kernel, problem["get_inputs"]()):
                return {"status": "wrong", "passed": passed, "trials": len(_SEEDS), "message": said}
            passed += 1
        torch.manual_seed(given["seed"])
        inputs = problem["get_inputs"]()
        with torch.no_grad():
            first = kernel(*inputs).clone()
            if not torch.equal(first, kernel(*inputs)):
                return {
                    "status": "wrong",
                    "passed": passed,
                    "trials": len(_SEEDS),
                    "message": "two calls differ",
                }
    except Exception as error:  # noqa: BLE001  the benchmark counts any as not compiled
        return {"status": "error", "passed": passed, "message": f"{type(error).__name__}: {error}"}
    times = {name: _median_us(call, inputs, given["timed"])
             for name, call in (("reference_us", reference), ("time_us", kernel))}  # fmt: skip
    return {"status": "correct", "passed": passed, "trials": len(_SEEDS), **times}


def _differs(reference: Any, kernel: Any, inputs: list[Any]) -> str:
    """Say what is wrong with one answer; empty if nothing is."""
    with torch.no_grad():
        expected, found = reference(*inputs), kernel(*inputs)
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        return "only tensors are compared"
    if expected.shape != found.shape:
        return f"shape {tuple(found.shape)} instead of {tuple(expected.shape)}"
    if not torch.isfinite(expected).all() or not torch.isfinite(found).all():
        return "not finite"
    dtype = next((x.dtype for x in inputs if isinstance(x, torch.Tensor)), torch.float32)
    absolute, relative = _TOLERANCES.get(dtype, _OTHER)
    worst = float((expected.float() - found.float()).abs().max())
    return "" if worst < absolute + relative * float(expected.float().abs().max()) else f"{worst:.3g} off"


def _median_us(call: Any, inputs: list[Any], count: int) -> float:
    with torch.no_grad():
        return statistics.median(each_us(lambda: call(*inputs), count, _WARM_UP))
