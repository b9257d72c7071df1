"""KernelBench's rules: correctness on several draws, then a mean over timed calls, all in one process.

Covers: seeds, the shared namespace of problem and kernel, the reference that runs first and on the same tensors, the
comparison by `allclose`, warm-up and timed calls on one draw, CUDA events and the flush of the L2 cache on a GPU, the
alarm at ten times.
Does not cover: events and flush on a CPU, which has the benchmark's host clock in their place.

Source: KernelBench, src/kernelbench/eval.py (`eval_kernel_against_ref`, `run_and_check_correctness`) and
src/kernelbench/timing.py (`time_execution_with_cuda_event`, `time_execution_with_host_time`, `get_timing_stats`).
"""

import importlib.util
import re
import tempfile
import traceback
from typing import Any

import torch

from .clock import each_us, events_us

_WARM_UP, _DISCARDED, _ALARM = 3, 1, 10.0
_BY_FILE = re.compile(r"^\s*(?:import|from) (?:triton|tilelang|cutlass)\b", re.MULTILINE)


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, trials passed, mean times in microseconds, and flags.

    `given` has `reference` and `submission` (texts), `seed`, `trials`, `timed`, `tolerance`, `device` (`cpu` or
    `cuda:N`), and `globals` for the kernel's namespace.
    """
    context: dict[str, Any] = {}
    device = given["device"]
    exec(given["reference"], context)
    model_class, inputs_of = context["Model"], context["get_inputs"]
    init = context.get("get_init_inputs", list)
    seed, count = given["seed"], given["trials"]
    torch.manual_seed(seed)
    arguments = [_cast(x, device) for x in init()]
    with torch.no_grad():
        torch.manual_seed(seed)
        reference = model_class(*arguments)
        context |= given["globals"]
        try:
            made = _defined(given["submission"], context)
            torch.manual_seed(seed)
            candidate = made["ModelNew"](*arguments)
            assert hasattr(candidate, "forward")
        except Exception:  # noqa: BLE001  whatever it is, the benchmark counts it as not compiled
            return {"status": "error", "message": traceback.format_exc(limit=-2)}
        reference, candidate = (m.to(device=device, dtype=torch.float32) for m in (reference, candidate))
        status, passed, message = _compare(reference, candidate, inputs_of, given)
        found: dict[str, Any] = {"status": status, "passed": passed, "trials": count, "message": message}
        if status == "correct":
            found |= _timed(reference, candidate, inputs_of, given)
    return found


def _defined(text: str, context: dict[str, Any]) -> dict[str, Any]:
    """Run a kernel's text among the problem's names; of languages that read their own source, as a file."""
    if not _BY_FILE.search(text):
        exec(text, context)
        return context
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location("submission", file.name)
    assert spec is not None, "the name ends like a module's"
    assert spec.loader is not None, "the name ends like a module's"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _compare(reference: Any, candidate: Any, inputs_of: Any, given: dict[str, Any]) -> tuple[str, int, str]:
    torch.manual_seed(given["seed"])
    seeds = [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(given["trials"])]
    passed, message, tolerance, device = 0, "", given["tolerance"], given["device"]
    for seed in seeds:
        torch.manual_seed(int(seed))
        inputs = [_cast(x, device) for x in inputs_of()]
        torch.manual_seed(int(seed))
        expected = _done(reference(*inputs))
        try:
            output = _done(candidate(*inputs))
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
    device = given["device"]

    def mean_us(call: Any) -> float:
        torch.manual_seed(given["seed"])
        return _mean_us(call, [_cast(x, device) for x in inputs_of()], given["timed"], device)

    time_us, reference_us = mean_us(candidate), mean_us(reference)
    flags = ["excessive speedup"] if time_us and reference_us / time_us > _ALARM else []
    return {"time_us": time_us, "reference_us": reference_us, "flags": flags}


def _mean_us(call: Any, inputs: list[Any], count: int, device: str) -> float:
    """Return the mean to three digits, as the benchmark rounds it."""
    asked = count + _DISCARDED, _WARM_UP
    if device == "cpu":
        times = each_us(lambda: call(*inputs), *asked)[_DISCARDED:]
    else:
        times = events_us(lambda: call(*inputs), *asked, device)[_DISCARDED:]
    return float(f"{sum(times) / len(times) / 1000:.3g}") * 1000


def _done(value: Any) -> Any:
    """Return the value once the GPU that it is on is idle."""
    if getattr(value, "is_cuda", False):
        torch.cuda.synchronize()
    return value


def _cast(value: Any, device: str) -> Any:
    """Cast every tensor, integers too, as the benchmark does."""
    return value.to(device=device, dtype=torch.float32) if isinstance(value, torch.Tensor) else value
