"""KernelBench-Hard's rules: three public seeds, a problem's own tolerances by dtype, what its text must not say.

Covers: forbidden calls, weights loaded by name, seeds, tolerances, finite answers, indices next to values (ties may be
broken otherwise: what they pick out of the first input has to be the values), timed calls.
Does not cover: the other sizes of a problem, inputs of other scales, properties, CUDA events, a flushed L2 cache.

Source: Infatoshi/kernelbench.com, benchmarks/hard: problems-h100/*/check.py and benchmark.py, src/eval/correctness.py.
"""

import statistics
from typing import Any

import torch

from .clock import each_us

_SEEDS = (42, 123, 456)
_WARM_UP = 10
_DEFAULT = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2, "float8_e4m3fn": 0.1, "float8_e5m2": 0.1}


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status, trials passed and median times; `given` as for KernelBench, with `tolerances` and `forbidden`."""
    named = next((word for word in given["forbidden"] if word in given["submission"]), None)
    if named:
        return {"status": "wrong", "trials": len(_SEEDS), "message": f"forbidden: {named}"}
    problem: dict[str, Any] = {}
    exec(given["reference"], problem)
    space = dict(problem) | given["globals"]
    passed = 0
    try:
        exec(given["submission"], space)
        init = problem["get_init_inputs"]()
        reference, kernel = (
            problem["Model"](*init).eval(),
            space.get("ModelNew", space["Model"])(*init).eval(),
        )
        kernel.load_state_dict(reference.state_dict(), strict=True)
        for seed in _SEEDS:
            torch.manual_seed(seed)
            inputs = problem["get_inputs"]()
            with torch.no_grad():
                expected, found = (_picked(_flat(model(*inputs)), inputs[0]) for model in (reference, kernel))
            said = _differs(expected, found, given["tolerances"])
            if said:
                return {"status": "wrong", "passed": passed, "trials": len(_SEEDS), "message": said}
            passed += 1
    except Exception as error:  # noqa: BLE001  the benchmark counts any as a failure
        return {"status": "error", "passed": passed, "message": f"{type(error).__name__}: {error}"}
    torch.manual_seed(given["seed"])
    inputs = problem["get_inputs"]()
    times = {name: _median_us(call, inputs, given["timed"])
             for name, call in (("time_us", kernel), ("reference_us", reference))}  # fmt: skip
    return {"status": "correct", "passed": passed, "trials": len(_SEEDS), **times}


def _flat(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, list | tuple) else [answer]


def _picked(answer: list[Any], source: Any) -> list[Any]:
    """Return an answer with what indices pick out of the first input in their place, where there are values too."""
    alone = len(answer) == 1
    return [a if alone or a.is_floating_point() else torch.gather(source, -1, a.long()) for a in answer]


def _differs(expected: list[Any], found: list[Any], tolerances: dict[str, float]) -> str:
    """Say what is wrong with an answer; empty if nothing is."""
    if len(expected) != len(found):
        return f"{len(found)} results instead of {len(expected)}"
    for one, other in zip(expected, found, strict=True):
        if one.shape != other.shape:
            return f"shape {tuple(other.shape)} instead of {tuple(one.shape)}"
        if not one.is_floating_point():
            if not torch.equal(one, other):
                return "output mismatch"
            continue
        if not torch.isfinite(other).all():
            return "not finite"
        name = str(one.dtype).removeprefix("torch.")
        allowed = tolerances.get(name, _DEFAULT.get(name, _DEFAULT["float32"]))
        if not torch.allclose(one.float(), other.float(), atol=allowed, rtol=allowed):
            return f"output mismatch, at most {float((one.float() - other.float()).abs().max()):.3g} off"
    return ""


def _median_us(call: Any, inputs: list[Any], count: int) -> float:
    with torch.no_grad():
        return statistics.median(each_us(lambda: call(*inputs), count, _WARM_UP))
