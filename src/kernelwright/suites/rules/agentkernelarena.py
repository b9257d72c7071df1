"""AgentKernelArena's rules for a module and its kernel: each case once under a public seed, then timed calls of each.

Covers: copies of inputs, evaluation mode, parameters matched by name, nested results, the mean over cases.
Does not cover: HIP sources and what they take to compile, a device's events, cases of more than a million elements.

Source: AgentKernelArena, tasks/torch2hip/*/eval_tools/correctness_check.py and cal_kernel_perf.py.
"""

import copy
from typing import Any

import torch

from .clock import mean_us

_WARM_UP = 10
_ABSOLUTE = 1e-5


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, cases passed and mean times in microseconds; `given` as for KernelBench."""
    context: dict[str, Any] = dict(given["globals"])
    exec(given["reference"], context)
    try:
        exec(given["submission"], context)
        context["ModelNew"]
    except Exception as error:  # noqa: BLE001  the benchmark counts any as not compiled
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    torch.manual_seed(0)
    reference = context["Model"](*context["get_init_inputs"]()).eval()
    chosen = context["kw_within"](context["kw_sizes"]())
    cases = [case for i, case in enumerate(context["kw_cases"]()) if i in chosen]
    passed = 0
    try:
        kernel = context["ModelNew"](*context["get_init_inputs"]())
        kernel.load_state_dict(reference.state_dict(), strict=False)
        kernel.eval()
        for i, case in enumerate(cases):
            expected = _seeded(given["seed"] + i, reference, case)
            if not _same(expected, _seeded(given["seed"] + i, kernel, case), given["tolerance"]):
                return {
                    "status": "wrong",
                    "passed": passed,
                    "trials": len(cases),
                    "message": f"case {i} differs",
                }
            passed += 1
        times = [
            sum(_mean_us(m, case, given["timed"]) for case in cases) / len(cases) for m in (reference, kernel)
        ]
    except Exception as error:  # noqa: BLE001  the benchmark counts any as wrong
        return {"status": "error", "passed": passed, "message": f"{type(error).__name__}: {error}"}
    found = {"passed": passed, "trials": len(cases), "reference_us": times[0], "time_us": times[1]}
    return {"status": "correct"} | found


def _seeded(seed: int, module: Any, case: list[Any]) -> Any:
    torch.manual_seed(seed)
    return module(*copy.deepcopy(case))


def _same(expected: Any, output: Any, tolerance: float) -> bool:
    if isinstance(expected, dict) and isinstance(output, dict):
        return set(expected) == set(output) and all(
            _same(expected[k], output[k], tolerance) for k in expected
        )
    if isinstance(expected, list | tuple) and isinstance(output, list | tuple):
        pairs = zip(expected, output, strict=False)
        return len(expected) == len(output) and all(_same(e, o, tolerance) for e, o in pairs)
    if isinstance(expected, torch.Tensor) and isinstance(output, torch.Tensor):
        return torch.allclose(expected, output, rtol=tolerance, atol=_ABSOLUTE)
    return bool(expected == output)


def _mean_us(module: Any, case: list[Any], count: int) -> float:
    return mean_us(lambda: module(*case), count, _WARM_UP)
