"""The rules of Meta's tritonbench: one call compared with the operator's, then the median of timed calls.

Covers: the comparison at the tolerances of the dtype, dtypes, the same arguments for both, the median.
Does not cover: Triton's do_bench and its flush of a cache, backward passes, other metrics.

Source: meta-pytorch/tritonbench, tritonbench/utils/triton_op.py (`BenchmarkOperator.accuracy`).
"""

import copy
import statistics
from typing import Any

import torch

from .clock import each_us

_WARM_UP = 25


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status and median times in microseconds.

    `given` has `reference` and `submission` (texts), the function's `symbol`, the `parameters` and `arguments` of the
    recorded call, `timed` and `globals`.
    """
    native: dict[str, Any] = {}
    exec(given["reference"], native)
    space: dict[str, Any] = {"torch": torch, **given["globals"]}
    try:
        exec(given["submission"], space)
        kernel = eval(f"lambda {given['parameters']}: {given['symbol']}({given['arguments']})", space)
    except Exception as error:  # noqa: BLE001  whatever it is, the kernel is not there
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    reference, inputs = native["Model"](), native["get_inputs"]()
    found: dict[str, Any] = {"trials": 1}
    with torch.no_grad():
        expected = reference(*copy.deepcopy(inputs))
        try:
            torch.testing.assert_close(native["outputs"](kernel(*copy.deepcopy(inputs))), expected)
            time_us = _median_us(kernel, inputs, given["timed"])
        except AssertionError as error:
            return found | {"status": "wrong", "message": str(error).splitlines()[0]}
        except Exception as error:  # noqa: BLE001  the benchmark counts any as a failure
            return found | {"status": "error", "message": f"{type(error).__name__}: {error}"}
        reference_us = _median_us(reference, inputs, given["timed"])
    return found | {"status": "correct", "passed": 1, "time_us": time_us, "reference_us": reference_us}


def _median_us(call: Any, inputs: list[Any], count: int) -> float:
    return statistics.median(each_us(lambda: call(*inputs), count, _WARM_UP))
