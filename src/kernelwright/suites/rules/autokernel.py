"""AutoKernel's five stages of tests: smoke, sizes and dtypes, hard values, repeatability, edges; then a mean time.

Covers: its draws, seeds, tolerances and their relaxation on hard values, NaN and infinity where the reference has none.
Does not cover: sizes of more than a million elements, a device's events, its limit of 30 seconds for each call.

Source: RightNow-AI/autokernel, bench.py (`run_correctness`).
"""

import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from .clock import mean_us

_MOST_ELEMENTS, _RELAXED, _WARM_UP, _CALLS = 1 << 20, 10.0, 3, 3
_TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, stages passed and mean times in microseconds.

    `given` has the problem's file and its own (`reference`, `files`), the kernel's text, `names` of arguments, `sizes`,
    `edges`, `dtypes`, `tolerances`, the task's `size` and `dtype`, `seed`, `timed` and `globals`.
    """
    for file in given["files"]:
        sys.modules[file["name"]] = module = types.ModuleType(file["name"])
        exec(file["text"], module.__dict__)
    native: dict[str, Any] = {}
    exec(given["reference"], native)
    for file in given["files"]:
        del sys.modules[file["name"]]
    space: dict[str, Any] = dict(given["globals"])
    stages = (_smoke, _sizes, _hard, _repeats, _edges)
    found: dict[str, Any] = {"passed": 0, "trials": len(stages)}
    try:
        exec(given["submission"], space)
        kernel = space["kernel_fn"]
        with torch.no_grad():
            for stage in stages:
                for said in stage(native, kernel, given):
                    if said:
                        return found | {"status": "wrong", "message": f"{stage.__name__[1:]}: {said}"}
                found["passed"] += 1
            inputs = native["kw_drawn"](given["size"], getattr(torch, given["dtype"]), given["seed"])
            times = [_mean_us(call, inputs, given) for call in (_reference(native), kernel)]
    except Exception as error:  # noqa: BLE001  the benchmark counts any as a crash
        return found | {"status": "error", "message": f"{type(error).__name__}: {error}"}
    return found | {"status": "correct", "reference_us": times[0], "time_us": times[1]}


def _reference(native: dict[str, Any]) -> Any:
    return native["Model"]()


def _mean_us(call: Any, inputs: dict[str, Any], given: dict[str, Any]) -> float:
    return mean_us(lambda: call(**inputs), given["timed"], _WARM_UP)


def _few(given: dict[str, Any], native: dict[str, Any], key: str) -> list[tuple[str, dict[str, int]]]:
    """Return the sizes that are not too large, and the smallest if all are."""
    dtype = getattr(torch, given["dtypes"][0])

    def elements(size: dict[str, int]) -> int:
        return sum(x.numel() for x in native["kw_drawn"](size, dtype, 0, "meta").values())

    counted = sorted(((elements(size), label, size) for label, size in given[key]), key=lambda one: one[0])
    return [(label, size) for n, label, size in counted if n <= _MOST_ELEMENTS] or [
        (label, size) for _, label, size in counted[:1]
    ]


def _smoke(native: dict[str, Any], kernel: Any, given: dict[str, Any]) -> Iterator[str]:
    label, size = _few(given, native, "sizes")[0]
    yield _said(native, kernel, given, size, given["dtypes"][0], label)


def _sizes(native: dict[str, Any], kernel: Any, given: dict[str, Any]) -> Iterator[str]:
    for label, size in _few(given, native, "sizes"):
        for dtype in given["dtypes"]:
            yield _said(native, kernel, given, size, dtype, label)


def _edges(native: dict[str, Any], kernel: Any, given: dict[str, Any]) -> Iterator[str]:
    for label, size in _few(given, native, "edges"):
        yield _said(native, kernel, given, size, given["dtypes"][0], label)


def _hard(native: dict[str, Any], kernel: Any, given: dict[str, Any]) -> Iterator[str]:
    _, size = _few(given, native, "sizes")[0]
    for label, change in _CHANGES.items():
        yield _said(native, kernel, given, size, given["dtypes"][0], label, change)


def _repeats(native: dict[str, Any], kernel: Any, given: dict[str, Any]) -> Iterator[str]:
    _, size = _few(given, native, "sizes")[0]
    dtype = getattr(torch, given["dtypes"][0])
    first, *rest = (kernel(**native["kw_drawn"](size, dtype, given["seed"])) for _ in range(_CALLS))
    yield "" if all(torch.equal(first, one) for one in rest) else "three calls differ"


def _largest(x: torch.Tensor) -> torch.Tensor:
    return x * (60000.0 if x.dtype is torch.float16 else 1e30)


def _mixed(x: torch.Tensor) -> torch.Tensor:
    return x * torch.where(torch.rand(x.shape) > 0.5, 1e3, 1e-3).to(x.dtype)


_CHANGES = {
    "near_max": _largest, "near_zero": lambda x: x * 1e-6, "mixed_scale": _mixed, "all_zeros": torch.zeros_like,
    "all_same": lambda x: torch.full_like(x, 0.5),
}  # fmt: skip


def _said(
    native: dict[str, Any], kernel: Any, given: dict[str, Any], size: dict[str, int], dtype: str, label: str,
    change: Any = None,
) -> str:  # fmt: skip
    """Say what is wrong of one call; empty if nothing."""
    inputs = native["kw_drawn"](size, getattr(torch, dtype), given["seed"])
    if change:
        inputs = {k: change(x) if x.is_floating_point() else x for k, x in inputs.items()}
    expected, output = _reference(native)(**inputs), kernel(**inputs)
    strange = [not bool(torch.isfinite(x).all()) for x in (output, expected)]
    if strange[0] and (not strange[1] or not change):
        return f"{label} in {dtype}: NaN or infinity"
    if strange[0]:
        return ""  # the benchmark takes any NaN for any NaN
    limits = {
        k: v * (_RELAXED if change else 1.0) for k, v in given["tolerances"].get(dtype, _TOLERANCE).items()
    }
    same = output.shape == expected.shape and torch.allclose(output.float(), expected.float(), **limits)
    return "" if same else f"{label} in {dtype} differs"
