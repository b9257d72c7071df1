"""BackendBench's rules on recorded calls: each compared at 1e-2, then timed by its CPU clock.

Covers: how the benchmark draws a recorded call, tolerance, NaN, structures of outputs, the mean of 100 calls for each.
Does not cover: a GPU's do_bench, processes of their own, a refusal for streams.

Source: BackendBench, BackendBench/utils.py (`deserialize_args`) and BackendBench/eval.py (`eval_one_op`).
"""

import math
import statistics
from typing import Any

import torch
from torch.testing import make_tensor

from .backendbench import compare
from .clock import mean_us

_WARM_UP = 10
_DTYPES = {
    "bf16": torch.bfloat16, "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "c32": torch.complex32,
    "c64": torch.complex64, "c128": torch.complex128, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "b8": torch.bool, "u8": torch.uint8,
}  # fmt: skip


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, calls passed, and geometric means of their times in microseconds.

    `given` has the `submission`, the kernel's `symbol`, the `operator`, the recorded `calls`, `tolerance`, `timed` and
    `globals`.
    """
    space: dict[str, Any] = {"torch": torch, **given["globals"]}
    try:
        exec(given["submission"], space)
        kernel = space[given["symbol"]]
    except Exception as error:  # noqa: BLE001  whatever it is, the kernel is not there
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    operator = eval(f"torch.ops.{given['operator']}")
    drawn = [_drawn(text) for text in given["calls"]]
    found: dict[str, Any] = {"trials": len(drawn), "passed": 0}
    wrong = "" if drawn else "no recorded call is small enough to be run"
    with torch.no_grad():
        for index, (arguments, named) in enumerate(drawn):
            expected = operator(*arguments, **named)
            try:
                compare(kernel(*arguments, **named), expected, given["tolerance"])
                found["passed"] += 1
            except Exception as error:  # noqa: BLE001  the benchmark counts any as a failed call
                wrong = wrong or f"call {index}: {type(error).__name__}: {str(error).splitlines()[0]}"
        if wrong:
            return found | {"status": "wrong" if drawn else "unknown", "message": wrong}
        times = [[_mean_us(one, call, given["timed"]) for call in drawn] for one in (kernel, operator)]
    means = [statistics.geometric_mean(each) for each in times]
    return found | {"status": "correct", "time_us": means[0], "reference_us": means[1]}


def _drawn(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    names = {
        "T": _tensor,
        "th": torch,
        "torch": torch,
        "inf": math.inf,
        "nan": math.nan,
        "device": _cpu,
        **_DTYPES,
    }
    made = eval(text.strip().strip("'\"").replace("'cuda'", "'cpu'").replace("'cuda:0'", "'cpu'"), names)
    return made[0], made[1]


def _tensor(size: list[int], dtype: torch.dtype, stride: Any = None) -> torch.Tensor:
    low, high = (0, 1) if dtype.is_floating_point else (None, None)
    if stride is None:
        return make_tensor(size, dtype=dtype, device="cpu", low=low, high=high)
    whole = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return make_tensor(whole, dtype=dtype, device="cpu", low=low, high=high).as_strided(size, stride)


def _cpu(*_: Any, **__: Any) -> torch.device:
    return torch.device("cpu")


def _mean_us(function: Any, call: tuple[tuple[Any, ...], dict[str, Any]], count: int) -> float:
    return mean_us(lambda: function(*call[0], **call[1]), count, _WARM_UP)
