"""FlashInfer-Bench's default rules: a few draws, compared absolutely and relatively, then timed on the same draws.

Covers: what a random input is by dtype, the order of calls, shape, dtype and non-finite values, both tolerances.
Does not cover: evaluators of sampling, sparse attention and low precision, CUPTI, stored inputs.

Source: FlashInfer-Bench, flashinfer_bench/bench/evaluators/default.py and flashinfer_bench/bench/utils.py.
"""

from functools import partial
from typing import Any

import torch

from .clock import mean_us

_WARM_UP, _TINY = 10, 1e-8
_ERRORS = ("absolute_error", "relative_error")
_RANGES = {"int8": 128, "int16": 1024, "int32": 1024, "int64": 1024}


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, trials passed, greatest errors and mean times in microseconds.

    `given` has `reference` and `submission` (texts), `entry`, `fills`, `inputs` and `outputs` (shape and dtype, or
    value), `trials`, `timed`, `tolerance` and `globals`.
    """
    native: dict[str, Any] = {}
    exec(given["reference"], native)
    context: dict[str, Any] = dict(given["globals"])
    try:
        exec(given["submission"], context)
        kernel = context[given["entry"]]
    except Exception as error:  # noqa: BLE001  whatever it is, the kernel is not there
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    call = _filling(kernel, given["outputs"]) if given["fills"] else kernel
    draws = [[_drawn(spec) for spec in given["inputs"]] for _ in range(given["trials"])]
    found: dict[str, Any] = {"trials": len(draws), "passed": 0, **dict.fromkeys(_ERRORS, 0.0)}
    with torch.no_grad():
        expected = [_listed(native["run"](*draw)) for draw in draws]
        try:
            for draw, right in zip(draws, expected, strict=True):
                said, *errors = _compared(_listed(call(*draw)), right, given["tolerance"])
                for name, greatest in zip(_ERRORS, errors, strict=True):
                    found[name] = max(greatest, found[name])
                if said:
                    return found | {"status": "wrong", "message": said}
                found["passed"] += 1
            time_us = _mean_us(call, draws, given["timed"])
        except Exception as error:  # noqa: BLE001  the benchmark counts any as a run-time error
            return found | {"status": "error", "message": f"{type(error).__name__}: {error}"}
        return found | {
            "status": "correct",
            "time_us": time_us,
            "reference_us": _mean_us(native["run"], draws, given["timed"]),
        }


def _drawn(spec: dict[str, Any]) -> Any:
    if "value" in spec:
        return spec["value"]
    name, shape = spec["dtype"], spec["shape"]
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.randint(0, 2, shape, dtype=dtype)
    if name in _RANGES:
        return torch.randint(-_RANGES[name], _RANGES[name], shape, dtype=dtype)
    if name.startswith("float8"):
        return torch.randn(shape).clamp_(-2.0, 2.0).to(dtype)
    return torch.randn(shape, dtype=dtype)


def _filling(kernel: Any, specs: list[dict[str, Any]]) -> Any:
    def call(*arguments: Any) -> list[torch.Tensor]:
        outputs = [torch.empty(s["shape"], dtype=getattr(torch, s["dtype"])) for s in specs]
        kernel(*arguments, *outputs)
        return outputs

    return call


def _listed(result: Any) -> list[torch.Tensor]:
    parts = result if isinstance(result, tuple | list) else [result]
    return [part if isinstance(part, torch.Tensor) else torch.tensor(part) for part in parts]


def _compared(
    outputs: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float
) -> tuple[str, float, float]:
    """Say what is wrong, empty if nothing is, and return the greatest absolute and relative error."""
    said, errors = "", (0.0, 0.0)
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs instead of {len(expected)}", *errors
    for output, right in zip(outputs, expected, strict=True):
        if output.shape != right.shape:
            return f"shape {tuple(output.shape)} instead of {tuple(right.shape)}", *errors
        if output.dtype != right.dtype:
            return f"{output.dtype} instead of {right.dtype}", *errors
        if output.is_floating_point() and not torch.isfinite(output.float()).all():
            return "an element is not finite", *errors
        off = (output.float() - right.float()).abs()
        relative = off / (right.float().abs() + _TINY)
        if off.numel():
            errors = max(errors[0], float(off.max())), max(errors[1], float(relative.max()))
        if wrong := int(((off > tolerance) & (relative > tolerance)).sum()):
            said = said or f"{wrong} elements are off, one by {float(off.max()):.3g}"
    return said, *errors


def _mean_us(call: Any, draws: list[list[Any]], count: int) -> float:
    means = [mean_us(partial(call, *draw), count, _WARM_UP) for draw in draws]
    return sum(means) / len(means)
