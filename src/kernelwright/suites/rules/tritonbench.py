"""TritonBench's rules: the test runs, and prints what it prints with the reference.

Covers: call accuracy, execution accuracy by the text printed, no seed between both runs; Triton kernels are executed.
Does not cover: Triton's do_bench and its set of sizes; the first call of the test is timed instead, and nothing is
where kernels are executed.

Source: TritonBench, EVAL/eval_T and EVAL/eval_G, 0_call_acc.py and 1_exe_acc.py.
"""

import contextlib
import io
import linecache
from typing import Any

import torch

from .clock import mean_us

_WARM_UP = 3


def verdict(given: dict[str, Any]) -> dict[str, Any]:
    """Return status and mean times in microseconds.

    `given` has `reference`, `submission` and `test` (texts), the function's `symbol`, `timed`, `globals`, and whether
    Triton kernels are `executed`.
    """
    try:
        native, calls = _tested({}, given["reference"], given)
    except Exception as error:  # noqa: BLE001  such as an operator that the CPU lacks
        return {
            "status": "unknown",
            "message": f"the test fails with the reference too: {type(error).__name__}: {error}",
        }
    try:
        printed, _ = _tested(dict(given["globals"]), given["submission"], given)
    except Exception as error:  # noqa: BLE001  the benchmark counts any as a failed call
        return {"status": "error", "trials": 1, "message": f"{type(error).__name__}: {error}"}
    if printed["said"] != native["said"]:
        return {"status": "wrong", "trials": 1, "message": "the test prints something else"}
    if given["executed"]:
        return {"status": "correct", "passed": 1, "trials": 1}
    arguments, named = calls[0]
    times = [_mean_us(space["call"], arguments, named, given["timed"]) for space in (printed, native)]
    return {"status": "correct", "passed": 1, "trials": 1, "time_us": times[0], "reference_us": times[1]}


def _tested(space: dict[str, Any], text: str, given: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Run the test after a text, and return what was printed, the function, and its calls."""
    if given["executed"]:
        return {"said": _executed(space, text, given["test"])}, []
    calls: list[Any] = []
    exec(text, space)
    call = space[given["symbol"]]

    def recorded(*arguments: Any, **named: Any) -> Any:
        calls.append((arguments, named))
        return call(*arguments, **named)

    space[given["symbol"]] = recorded
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(given["test"], space)
    return {"said": said.getvalue(), "call": call}, calls


def _executed(space: dict[str, Any], text: str, test: str) -> str:
    """Run the test after a text with Triton kernels, whose lines Triton reads, and return what it printed."""
    from kernelwright.executor.python import run_on_cpu

    whole = f"{text}\n{test}"
    name = f"<kernels {len(linecache.cache)}>"
    linecache.cache[name] = (len(whole), None, whole.splitlines(keepends=True), name)
    space |= {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        run_on_cpu(lambda: exec(compile(whole, name, "exec"), space))
    return said.getvalue()


def _mean_us(call: Any, arguments: Any, named: dict[str, Any], count: int) -> float:
    with torch.no_grad():
        return mean_us(lambda: call(*arguments, **named), count, _WARM_UP)
