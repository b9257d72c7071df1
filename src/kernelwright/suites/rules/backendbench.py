"""BackendBench's rules: every OpInfo sample of an overload, compared at 1e-2, then timed by its CPU clock.

Covers: the samples whose call is this one overload, tolerance, NaN, structures of outputs, the mean of 100 calls.
Does not cover: samples of other suites, processes of their own, a refusal for streams.

Source: BackendBench, BackendBench/eval.py (`allclose`, `eval_correctness`, `cpu_bench`).
"""

import sys
import types
import unittest
from typing import Any

import torch

from .clock import mean_us

_WARM_UP = 10


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, samples passed and mean times in microseconds.

    `given` has `reference` and `submission` (texts), the kernel's `symbol`, `parameters` and `arguments` of the call
    that is timed, OpInfo's `op` and `variant`, the `overload`, the `indices` of samples, `tolerance`, `timed` and
    `globals`.
    """
    space: dict[str, Any] = {"torch": torch, **given["globals"]}
    try:
        exec(given["submission"], space)
        kernel = space[given["symbol"]]
    except Exception as error:  # noqa: BLE001  whatever it is, the kernel is not there
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    info = next(o for o in _listed() if (o.name, o.variant_test_name) == (given["op"], given["variant"]))
    operator = eval(f"torch.ops.aten.{given['overload']}")
    drawn = list(info.sample_inputs("cpu", torch.float32))
    found: dict[str, Any] = {"trials": len(given["indices"]), "passed": 0}
    wrong = ""
    for index in given["indices"]:
        sample = drawn[index]
        arguments = (sample.input, *sample.args)
        expected = operator(*arguments, **sample.kwargs)
        try:
            compare(kernel(*arguments, **sample.kwargs), expected, given["tolerance"])
            found["passed"] += 1
        except Exception as error:  # noqa: BLE001  the benchmark counts any as a failed sample
            wrong = wrong or f"sample {index}: {type(error).__name__}: {str(error).splitlines()[0]}"
    if wrong:
        return found | {"status": "wrong", "message": wrong}
    native: dict[str, Any] = {}
    exec(given["reference"], native)
    inputs = native["get_inputs"]()
    timed = eval(f"lambda {given['parameters']}: {given['symbol']}({given['arguments']})", space)
    times = [_mean_us(call, inputs, given["timed"]) for call in (timed, native["Model"]())]
    return found | {"status": "correct", "time_us": times[0], "reference_us": times[1]}


def _listed() -> Any:
    """Return torch's list of operators, which asks for a package that only its tests use."""
    stub = types.ModuleType("expecttest")
    stub.__dict__["TestCase"] = unittest.TestCase
    sys.modules.setdefault("expecttest", stub)
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def compare(output: Any, expected: Any, tolerance: float) -> None:
    """Raise AssertionError where the benchmark's comparison does."""
    if isinstance(output, torch.Tensor):
        torch.testing.assert_close(output, expected, equal_nan=True, atol=tolerance, rtol=tolerance)
    elif isinstance(output, list | tuple):
        assert len(output) == len(expected), "another number of outputs"
        for one, right in zip(output, expected, strict=True):
            compare(one, right, tolerance)
    else:
        assert output == expected, "another value"


def _mean_us(call: Any, inputs: list[Any], count: int) -> float:
    with torch.no_grad():
        return mean_us(lambda: call(*inputs), count, _WARM_UP)
