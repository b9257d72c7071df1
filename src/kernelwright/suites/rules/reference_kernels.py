"""The rules of reference-kernels: every test by the problem's own check, then ranked calls on fresh data.

Covers: the combination of public and secret seeds, clones for the check, a check after every ranked call, when timing
stops.
Does not cover: processes of their own for each test, events of a device, the flush of its cache, other benchmarks.

Source: gpu-mode/reference-kernels, problems/pmpp_v2/eval.py (`_combine`, `_run_single_test`, `_run_single_benchmark`).
"""

import statistics
import sys
import time
import types
from typing import Any

import torch

_NEXT_SEED, _ENOUGH, _LONGEST_S = 13, 0.001, 10.0


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, tests passed and mean times in microseconds.

    `given` has `files` (name and text), `submission`, `tests`, `benchmark`, `secret`, `timed` and `globals`.
    """
    by_name = {file["name"]: file["text"] for file in given["files"]}
    for name in sorted(by_name, key=lambda name: (name == "reference", name != "kw_place", name != "task")):
        _module(name, by_name[name], {})
    reference = sys.modules["reference"]
    try:
        kernel = _module("submission", given["submission"], given["globals"]).custom_kernel
    except Exception as error:  # noqa: BLE001  whatever it is, the kernel is not there
        return {"status": "error", "message": f"{type(error).__name__}: {error}"}
    passed, found = 0, {"trials": len(given["tests"])}
    for test in given["tests"]:
        spec = _secretly(test, given["secret"])
        try:
            data = reference.generate_input(**spec)
            said = _fault(reference, data, kernel(_clone(data)))
        except Exception as error:  # noqa: BLE001  the benchmark counts any as failed
            return found | {
                "status": "error",
                "passed": passed,
                "message": f"{type(error).__name__}: {error}",
            }
        if said is not None:
            return found | {"status": "wrong", "passed": passed, "message": said}
        passed += 1
    spec, times = _secretly(given["benchmark"], given["secret"]), []
    for call in (kernel, reference.ref_kernel):
        mean_us, said = _ranked(reference, call, dict(spec), given["timed"])
        if said is not None:
            return found | {"status": "wrong", "passed": passed, "message": f"in a ranked call: {said}"}
        times.append(mean_us)
    return found | {"status": "correct", "passed": passed, "time_us": times[0], "reference_us": times[1]}


def _module(name: str, text: str, given: dict[str, Any]) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(given)
    sys.modules[name] = module
    exec(text, module.__dict__)
    return module


def _ranked(reference: Any, call: Any, spec: dict[str, Any], count: int) -> tuple[float, str | None]:
    said = _fault(reference, *_called(reference, call, spec))
    times: list[float] = []
    begun = time.perf_counter()
    while said is None and len(times) < count:
        if "seed" in spec:
            spec["seed"] += _NEXT_SEED
        data = reference.generate_input(**spec)
        kept = _clone(data)
        start = time.perf_counter()
        output = call(data)
        times.append(time.perf_counter() - start)
        said = _fault(reference, kept, output)
        if len(times) > 2 and (_is_sure(times) or time.perf_counter() - begun > _LONGEST_S):
            break
    return (statistics.fmean(times) * 1e6 if times else 0.0), said


def _called(reference: Any, call: Any, spec: dict[str, Any]) -> tuple[Any, Any]:
    data = reference.generate_input(**spec)
    kept = _clone(data)
    return kept, call(data)


def _is_sure(times: list[float]) -> bool:
    return bool(statistics.stdev(times) / len(times) ** 0.5 < _ENOUGH * statistics.fmean(times))


def _fault(reference: Any, data: Any, output: Any) -> str | None:
    """Return what the problem's own check says against an output; some answer with a sentence, some with a pair."""
    said = reference.check_implementation(data, output)
    good, message = said if isinstance(said, tuple) else (not said, said)
    return None if good else str(message)[:500]


def _secretly(spec: dict[str, Any], secret: int) -> dict[str, Any]:
    """Combine a public seed with the secret one by Cantor's pairing."""
    if "seed" not in spec:
        return dict(spec)
    a, b = spec["seed"], secret
    return spec | {"seed": int(a + (a + b) * (a + b + 1) // 2)}


def _clone(data: Any) -> Any:
    if isinstance(data, torch.Tensor):
        return data.clone()
    if isinstance(data, dict):
        return {name: _clone(part) for name, part in data.items()}
    return type(data)([_clone(part) for part in data]) if isinstance(data, tuple | list) else data
