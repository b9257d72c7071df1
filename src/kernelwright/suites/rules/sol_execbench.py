"""SOL-ExecBench's rules: ten draws after one public seed, most elements within tolerances, then a median.

Covers: the seed, fresh draws in each round, ones and zeros for weights and biases of norms, small weight matrices,
shape, dtype, finite values, an output that is all zero, the share of elements that match, the cap on the error.
Does not cover: CUPTI, a cold cache, new addresses in each call, checks of threads and of patched functions, other
draws by name, workloads whose inputs are stored or made by a function of the definition.

Source: SOL-ExecBench, src/sol_execbench/core/bench/correctness.py and io.py.
"""

import math
import random
import statistics
from typing import Any

import torch

from .clock import each_us

_WARM_UP = 10


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, rounds passed and median times in microseconds.

    `given` as for FlashInfer-Bench, with `seed`, and the `tolerance` of the workload as its JSON has it.
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
    random.seed(given["seed"])
    torch.manual_seed(given["seed"])
    found: dict[str, Any] = {"trials": given["trials"], "passed": 0}
    with torch.no_grad():
        for _ in range(given["trials"]):
            inputs = [_drawn(spec) for spec in given["inputs"]]
            expected = _listed(native["run"](*inputs))
            try:
                said = _fault(_listed(call(*inputs)), expected, given["tolerance"])
            except Exception as error:  # noqa: BLE001  the benchmark counts any as a run-time error
                return found | {"status": "error", "message": f"{type(error).__name__}: {error}"}
            if said:
                return found | {"status": "wrong", "message": said}
            found["passed"] += 1
        times = [_median_us(one, inputs, given["timed"]) for one in (call, native["run"])]
    return found | {"status": "correct", "time_us": times[0], "reference_us": times[1]}


def _drawn(spec: dict[str, Any]) -> Any:
    if "value" in spec:
        return spec["value"]
    name, shape, dtype = spec["name"].lower(), spec["shape"], getattr(torch, spec["dtype"])
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, dtype=dtype)
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -128, 128, shape, dtype=dtype)
    if spec["dtype"].startswith("float8"):
        return torch.randn(shape).clamp_(-2.0, 2.0).to(dtype)
    if "norm" in name and ("weight" in name or "bias" in name):
        return (torch.ones if "weight" in name else torch.zeros)(shape, dtype=dtype)
    if "weight" in name and len(shape) > 1:
        return torch.randn(shape, dtype=dtype) / math.sqrt(shape[-1])
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


def _fault(outputs: list[torch.Tensor], expected: list[torch.Tensor], tolerance: dict[str, Any]) -> str:
    """Say what is wrong; empty if nothing is."""
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs instead of {len(expected)}"
    for output, right in zip(outputs, expected, strict=True):
        if (output.shape, output.dtype) != (right.shape, right.dtype):
            return f"{output.dtype} {tuple(output.shape)} instead of {right.dtype} {tuple(right.shape)}"
        mine, wanted = output.float(), right.float()
        if not torch.isfinite(mine).all() or not torch.isfinite(wanted).all():
            return "an element is not finite"
        if wanted.any() and not mine.any():
            return "all zero"
        off = (mine - wanted).abs()
        beyond = off > tolerance["max_atol"] + tolerance["max_rtol"] * wanted.abs()
        cap = tolerance["max_error_cap"]
        if off.numel() and 1 - float(beyond.float().mean()) < tolerance["required_matched_ratio"]:
            return f"{int(beyond.sum())} of {off.numel()} elements are off"
        if off.numel() and cap is not None and float(off.max()) > cap:
            return f"an element is off by {float(off.max()):.3g}"
    return ""


def _median_us(call: Any, inputs: list[Any], count: int) -> float:
    return statistics.median(each_us(lambda: call(*inputs), count, _WARM_UP))
