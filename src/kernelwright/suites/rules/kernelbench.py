"""KernelBench's rules: correctness on several draws, then a mean over timed calls, all in one process.

Covers: seeds, the shared namespace of problem and kernel, the reference that runs first and on the same tensors, the
comparison by `allclose`, warm-up and timed calls on one draw, the alarm at ten times.
Does not cover: CUDA events and the flush of the L2 cache, in whose place a CPU has the benchmark's host clock.

Source: KernelBench, src/kernelbench/eval.py (`eval_kernel_against_ref`, `run_and_check_correctness`) and
src/kernelbench/timing.py (`time_execution_with_host_time`, `get_timing_stats`).
"""

import traceback
from typing import Any

import torch

from .clock import each_us

_WARM_UP, _DISCARDED, _ALARM = 3, 1, 10.0


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, trials passed, mean times in microseconds, and flags.

    `given` has `reference` and `submission` (texts), `seed`, `trials`, `timed`, `tolerance`, and `globals` for the
    kernel's namespace.
    """
    context: dict[str, Any] = {}
    exec(given["reference"], context)
    model_class, inputs_of = context["Model"], context["get_inputs"]
    init = context.get("get_init_inputs", list)
    seed, count = given["seed"], given["trials"]
    torch.manual_seed(seed)
    arguments = [_cast(x) for x in init()]
    with torch.no_grad():
        torch.manual_seed(seed)
        reference = model_class(*arguments)
        context |= given["globals"]
        try:
            exec(given["submission"], context)
            torch.manual_seed(seed)
            candidate = context["ModelNew"](*arguments)
            assert hasattr(candidate, "forward")
        except Exception:  # noqa: BLE001  whatever it is, the benchmark counts it as not compiled
            return {"status": "error", "message": traceback.format_exc(limit=-2)}
        reference, candidate = reference.to(dtype=torch.float32), candidate.to(dtype=torch.float32)
        status, passed, message = _compare(reference, candidate, inputs_of, given)
        found: dict[str, Any] = {"status": status, "passed": passed, "trials": count, "message": message}
        if status == "correct":
            found |= _timed(reference, candidate, inputs_of, given)
    return found


def _compare(reference: Any, candidate: Any, inputs_of: Any, given: dict[str, Any]) -> tuple[str, int, str]:
    torch.manual_seed(given["seed"])
    seeds = [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(given["trials"])]
    passed, message, tolerance = 0, "", given["tolerance"]
    for seed in seeds:
        torch.manual_seed(int(seed))
        inputs = [_cast(x) for x in inputs_of()]
        torch.manual_seed(int(seed))
        expected = reference(*inputs)
        try:
            output = candidate(*inputs)
            if expected.shape != output.shape:
                return "wrong", passed, f"shape {tuple(output.shape)} instead of {tuple(expected.shape)}"
            if torch.allclose(expected, output, atol=tolerance, rtol=tolerance):
                passed += 1
            else:
                worst = float((expected - output).abs().max())
                message = f"output mismatch, at most {worst:.3g} off"
        except Exception:  # noqa: BLE001  the benchmark counts any as a run-time error
            return "error", passed, traceback.format_exc(limit=-2)
    return ("correct" if passed == given["trials"] else "wrong"), passed, message


def _timed(reference: Any, candidate: Any, inputs_of: Any, given: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(given["seed"])
    inputs = [_cast(x) for x in inputs_of()]
    time_us = _mean_us(candidate, inputs, given["timed"])
    torch.manual_seed(given["seed"])
    reference_us = _mean_us(reference, [_cast(x) for x in inputs_of()], given["timed"])
    flags = ["excessive speedup"] if time_us and reference_us / time_us > _ALARM else []
    return {"time_us": time_us, "reference_us": reference_us, "flags": flags}


def _mean_us(call: Any, inputs: list[Any], count: int) -> float:
    """Return the mean to three digits, as the benchmark rounds it."""
    times = each_us(lambda: call(*inputs), count + _DISCARDED, _WARM_UP)[_DISCARDED:]
    return float(f"{sum(times) / len(times) / 1000:.3g}") * 1000


def _cast(value: Any) -> Any:
    """Cast every tensor, integers too, as the benchmark does."""
    return value.to(dtype=torch.float32) if isinstance(value, torch.Tensor) else value
