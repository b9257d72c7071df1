"""KernelBench-X's rules: the test's results with the kernel are those with the function, under one public seed.

Covers: the order (kernel first), one process, the seed before either, tolerances by dtype, dtypes and shapes, contracts
of quantisation.
Does not cover: the scripts that time each problem, recorded times; the largest call of the test is timed instead.

Source: KernelBench_X, EVAL/1_exe_acc.py (`compare_python_files`) and utils/correction_utils.py (`precision_metric`).
"""

import math
import random
import sys
import types
from typing import Any

import numpy as np
import torch

from .clock import mean_us

_WARM_UP, _TINY = 3, 1e-12
_TOLERANCES = {torch.float16: 5e-3, torch.bfloat16: 5e-3, torch.float32: 1e-5, torch.float64: 1e-5}


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, results that agree, and mean times in microseconds.

    `given` has `reference`, `submission`, `test` and `draws` (texts), the function's `symbol`, what else it may be
    called (`any_name`), `seed`, `timed`, `thresholds` (a contract of quantisation, or None) and `globals`.
    """
    draws = types.ModuleType("data_utils")
    exec(given["draws"], draws.__dict__)
    sys.modules["data_utils"] = draws
    try:
        mine, called, _ = _tested(dict(given["globals"]), given["submission"], given)
    except Exception as error:  # noqa: BLE001  the benchmark counts any as a failed call
        failure = f"{type(error).__name__}: {error}"
    else:
        failure = ""
    try:
        native, reference, calls = _tested({}, given["reference"], given)
    except Exception as error:  # noqa: BLE001  such as an operator that the CPU lacks
        said = f"the test fails with the reference too: {type(error).__name__}: {error}"
        return {"status": "unknown", "message": said}
    found: dict[str, Any] = {"trials": len(native), "passed": 0}
    if failure:
        return found | {"status": "error", "message": failure}
    if set(mine) != set(native):
        return found | {"status": "wrong", "message": "other results than the test's"}
    for name in native:
        if said := _fault(mine[name], native[name], given["thresholds"]):
            return found | {"status": "wrong", "message": f"{name}: {said}"}
        found["passed"] += 1
    arguments, named = max(calls, key=_size)
    times = [_mean_us(call, arguments, named, given["timed"]) for call in (called, reference)]
    return found | {"status": "correct", "time_us": times[0], "reference_us": times[1]}


def _tested(space: dict[str, Any], text: str, given: dict[str, Any]) -> tuple[dict[str, Any], Any, list[Any]]:
    """Run the test after a text, and return its results by name, the function, and its calls."""
    random.seed(given["seed"])
    torch.manual_seed(given["seed"])
    calls: list[Any] = []
    space["__file__"] = "submission.py"
    exec(text, space)
    symbol = given["symbol"] if given["symbol"] in space else given["any_name"]
    call = space[symbol]

    def recorded(*arguments: Any, **named: Any) -> Any:
        calls.append((arguments, named))
        return call(*arguments, **named)

    space[given["symbol"]] = recorded
    exec(given["test"], space)
    results = space["test_results"]
    return (results if isinstance(results, dict) else {"result": results}), call, calls


def _fault(mine: Any, native: Any, thresholds: dict[str, float] | None) -> str:
    """Say what differs; empty if nothing does."""
    if isinstance(mine, torch.Tensor) and isinstance(native, torch.Tensor):
        if (mine.shape, mine.dtype) != (native.shape, native.dtype):
            return f"{mine.dtype} {tuple(mine.shape)} instead of {native.dtype} {tuple(native.shape)}"
        return _coarse(mine, native, thresholds) if thresholds else _apart(mine, native)
    if isinstance(mine, list | tuple) and isinstance(native, list | tuple):
        if len(mine) != len(native):
            return f"{len(mine)} values instead of {len(native)}"
        return next((f for a, b in zip(mine, native, strict=True) if (f := _fault(a, b, thresholds))), "")
    if isinstance(mine, dict) and isinstance(native, dict):
        if set(mine) != set(native):
            return "other keys"
        return next((f for name in native if (f := _fault(mine[name], native[name], thresholds))), "")
    if isinstance(mine, np.ndarray) and isinstance(native, np.ndarray):
        return _fault(torch.from_numpy(mine), torch.from_numpy(native), None)
    if isinstance(mine, float | int) and isinstance(native, float | int):
        close = math.isclose(mine, native, rel_tol=1e-5, abs_tol=1e-5) or (
            math.isnan(mine) and math.isnan(native)
        )
        return "" if close else f"{mine} instead of {native}"
    return "" if mine == native else "another value"


def _apart(mine: torch.Tensor, native: torch.Tensor) -> str:
    tolerance = _TOLERANCES.get(native.dtype, 0.0)
    try:
        torch.testing.assert_close(mine, native, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        return str(error).splitlines()[0]
    return ""


def _coarse(mine: torch.Tensor, native: torch.Tensor, thresholds: dict[str, float]) -> str:
    x, y = mine.double().flatten(), native.double().flatten()
    lengths = x.norm() * y.norm()
    cosine = float(x @ y / lengths) if lengths > _TINY else float(x.norm() <= _TINY and y.norm() <= _TINY)
    relative = float((x - y).abs().sum() / y.abs().sum().clamp_min(_TINY))
    square = float((x - y).pow(2).mean().sqrt())
    good = (
        cosine >= thresholds["cosine_sim"]
        and relative <= thresholds["l1_relative"]
        and square <= thresholds["rmse"]
    )
    return "" if good else f"cosine {cosine:.3f}, relative L1 {relative:.3g}, RMSE {square:.3g}"


def _size(call: tuple[Any, dict[str, Any]]) -> int:
    arguments, named = call
    return sum(x.numel() for x in (*arguments, *named.values()) if isinstance(x, torch.Tensor))


def _mean_us(call: Any, arguments: Any, named: dict[str, Any], count: int) -> float:
    with torch.no_grad():
        return mean_us(lambda: call(*arguments, **named), count, _WARM_UP)
