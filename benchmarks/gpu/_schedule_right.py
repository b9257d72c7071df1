"""One printed schedule on the GPU, held against float64: the child of `benchmarks.gpu.schedule`.

A problem's answers are held to the contract's limits, in units of torch's own error on the same GPU with TF32 off;
what exceeds them is held once more to the oracle's best estimate, as the judge does, and is `as torch` if torch's
answer on the GPU exceeds that too. Free GPU memory is filled with
NaN before a call, so that what is not written shows.
"""

import time
import traceback
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks.random_graphs import DRAWN, case_of, drawn
from kernelwright.compiler import schedules
from kernelwright.compiler.actions import State, offered
from kernelwright.compiler.lower import NotLowered
from kernelwright.compiler.printers import Unprintable, forms_of, triton
from kernelwright.errors import KernelwrightError
from kernelwright.languages import get_language
from kernelwright.records import Candidate, Split, Workload
from kernelwright.tasks import Problem, load_task
from kernelwright.testing import random_program
from kernelwright.verify import Oracle, error_against, output_tolerance

from ._children import Row, serve

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_TEXT = 1500
_POISON_BYTES = 256 << 20
_LAYOUTS: tuple[dict[str, str | int], ...] = (
    {}, {"lanes": "inner", "block": 64}, {"lanes": "outer", "block": 256, "num_warps": 8},
)  # fmt: skip
_DTYPES = ("float32", "float16", "bfloat16", "int64", "bool")


def answer(item: Row) -> Row:
    """Take one item as far as it goes: `right`, `as torch`, `wrong`, `not printed`, `not compiled`, `failed`."""
    started = time.monotonic()
    row: Row = {}
    try:
        (_random if item["kind"] == "random" else _problem)(item, row)
    except Exception as error:  # noqa: BLE001 - any exception is the finding
        text = "".join(traceback.format_exception(error))
        row |= {
            "status": _status(error),
            "why": f"{type(error).__name__}: {error}"[:_TEXT],
            "trace": text[-_TEXT:],
        }
        row["fatal"] = "CUDA error" in text or "illegal" in text or "out of memory" in text
    return row | {"seconds": round(time.monotonic() - started, 2)}


def _status(error: Exception) -> str:
    if isinstance(error, Unprintable | NotLowered):
        return "not printed"
    if isinstance(error, KernelwrightError):
        return "not loaded"
    module = type(error).__module__
    return "not compiled" if module.startswith("triton") else "failed"


# Problems --------------------------------------------------------------------------------------------------


def _problem(item: Row, row: Row) -> None:
    problem = Problem(load_task(Path(item["path"]), max_elements=item["max_elements"]))
    said: list[str] = []
    found = next(islice(schedules(problem, ("triton",), said.append), item["rank"], None), None)
    row["said"] = said[:3]
    if found is None:
        row |= {"status": "no schedule", "why": "; ".join(said)[:_TEXT]}
        return
    candidate = found.render({**found.default(), **item.get("choice", {})})
    program = found.leaf.state.program
    row |= {"schedule": found.name, "native": len(program.natives) if program else 0}
    workload = problem.task.split(Split.SEARCH)[0]
    function = get_language("triton").load(candidate, Path(), ())
    _held(problem, workload, function, row)
    row |= facts(function)
    if any(p.name == "precision" for p in found.space.parameters):
        row["tf32x3"] = _apart(problem, workload, found.render({**found.default(), "precision": "tf32x3"}))
    if row["status"] == "right" and item["rank"] == 0:
        other = _smaller(problem, workload)
        if other is not None:
            tail: Row = {}
            try:
                _held(problem, other, function, tail)
            except NotImplementedError as error:
                tail = {"status": "refused", "why": str(error)}
            row["tail"] = {**other.axes, **tail}
            if tail["status"] not in ("right", "refused"):
                row |= {"status": tail["status"], "why": f"at {other.axes}: {tail['why']}"}


def _apart(problem: Problem, workload: Workload, candidate: Candidate) -> Row:
    """Hold another rendering; what goes wrong is its own row."""
    row: Row = {}
    function = get_language("triton").load(candidate, Path(), ())
    try:
        _held(problem, workload, function, row)
    except Exception as error:  # noqa: BLE001 - a finding about this rendering only
        row |= {"status": _status(error), "why": f"{type(error).__name__}: {error}"[:_TEXT]}
    return row | facts(function)


def _smaller(problem: Problem, workload: Workload) -> Workload | None:
    """Return the workload with every axis one shorter, where the reference takes it."""
    axes = {name: size - 1 for name, size in workload.axes.items() if size > 2}
    if not axes:
        return None
    try:
        return problem.at(workload, axes)
    except Exception:  # noqa: BLE001 - not every reference takes other sizes
        return None


def _held(problem: Problem, workload: Workload, function: Any, row: Row) -> None:
    """Run a candidate and compare."""
    seed = 11
    inputs, state = problem.inputs(workload, seed), problem.state(workload, seed)
    there = [a.to(DEVICE) if isinstance(a, torch.Tensor) else a for a in inputs]
    held = {name: t.to(DEVICE) for name, t in state.items()}
    with torch.device(DEVICE):
        native = problem.run_reference(workload, there, held)
        truth = problem.run_oracle(workload, there, held)
    poison()
    began = time.monotonic()
    own = {name: t.clone() for name, t in held.items()}
    got = _called(function, there, [own[s.name] for s in workload.state])
    row["first_s"] = round(time.monotonic() - began, 3)
    if problem.task.contract.stochastic:
        row |= {"status": "random", "why": "the reference draws random numbers"}
        return
    row |= _compared(problem, got, truth.outputs, native.outputs, inputs)
    changed = [k for k, t in native.state.items() if k in held and not torch.equal(t, held[k])]
    if row["status"] == "right" and changed:
        after, expected, torchs = ([d[k] for k in changed] for d in (own, truth.state, native.state))
        row |= _compared(problem, after, expected, torchs, inputs)
    if row["status"] == "wrong" and row.get("inexact"):
        case = Oracle(problem).make(workload, seed, inputs, state, measured=True)
        is_right, is_torch_right = (
            all(
                error_against(o.cpu(), t, case.tensors).ok for o, t in zip(outputs, case.outputs, strict=True)
            )
            for outputs in (got, native.outputs)
        )
        row |= {
            "status": "right" if is_right else "wrong" if is_torch_right else "as torch",
            "second_look": True,
        }
    if row["status"] == "wrong":
        again = _called(function, there, [held[s.name].clone() for s in workload.state])
        row["repeats"] = all(
            torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(again, got, strict=True)
        )


def _called(function: Any, inputs: Any, state: Any) -> tuple[torch.Tensor, ...]:
    got = function(*inputs, *state)
    synchronise()
    return got if isinstance(got, tuple) else (got,)


def _compared(problem: Problem, got: Any, truth: Any, native: Any, inputs: Any) -> Row:
    tensors = [a for a in inputs if isinstance(a, torch.Tensor)]
    worst = 0.0
    for i, (one, right, own) in enumerate(zip(got, truth, native, strict=True)):
        if one.shape != own.shape or one.dtype != own.dtype:
            return {
                "status": "wrong",
                "why": f"output {i} is {one.dtype} {tuple(one.shape)}, not {own.dtype} {tuple(own.shape)}",
            }
        limits = output_tolerance(right.cpu(), own.cpu(), problem.task.contract)
        found = error_against(one.cpu(), limits, tensors)
        worst = max(worst, found.error, found.norm)
        if not found.ok:
            off = (one.cpu().double() - right.cpu().double()).abs()
            place = int(off.nan_to_num(float("inf")).argmax())
            values = "{:.6g} for {:.6g}, torch's {:.6g}".format(
                *(t.flatten()[place].item() for t in (one, right, own))
            )
            return {
                "status": "wrong", "inexact": found.inexact, "error": found.error, "wrong": found.wrong,
                "why": f"output {i}: {found.message}; {found.wrong} of {off.numel()}, worst at {place}: {values}",
            }  # fmt: skip
    return {"status": "right", "error": worst, "why": ""}


# Random programs -------------------------------------------------------------------------------------------


def _random(item: Row, row: Row) -> None:
    seed = item["seed"]
    case = case_of(random_program(seed, dtypes=_DTYPES))
    able = set(offered(forms_of("triton")))
    state = drawn(State(case.graph, case.graph), seed, actions=[a for a in DRAWN if a in able])
    if state.program is None:
        row |= {"status": "not printed", "why": "does not lower"}
        return
    choice = _LAYOUTS[seed % len(_LAYOUTS)]
    row |= {"schedule": f"{state.text} {choice or ''}".strip(), "native": len(state.program.natives)}
    candidate: Candidate = triton.render(state.program, state.graph, parameters=choice)
    function = get_language("triton").load(candidate, Path(), ())
    poison()
    got = function(*(t.contiguous().to(DEVICE) for t in case.inputs))
    synchronise()
    row |= facts(function)
    why = case.difference([t.cpu() for t in (got if isinstance(got, tuple) else (got,))])
    row |= {"status": "wrong" if why else "right", "why": why or ""}


# The device ------------------------------------------------------------------------------------------------


def poison() -> None:
    """Fill memory that the next allocations reuse with NaN."""
    if DEVICE == "cuda":
        sizes = (512, 1 << 16, 1 << 20, 8 << 20, 64 << 20, _POISON_BYTES)
        held = [torch.full((size // 4,), float("nan"), device=DEVICE) for size in sizes for _ in range(2)]
        del held


def synchronise() -> None:
    """Wait for the GPU."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def facts(function: Any) -> Row:
    """Return what the compiler says about the kernels that ran: most registers, bytes spilled, shared memory."""
    registers = spilled = shared = 0
    for jitted in vars(function).get("__globals__", function.__globals__).values():
        for kernels, *_ in getattr(jitted, "device_caches", {}).values():
            for kernel in kernels.values():
                registers = max(registers, getattr(kernel, "n_regs", 0) or 0)
                spilled = max(spilled, getattr(kernel, "n_spills", 0) or 0)
                shared = max(shared, getattr(kernel.metadata, "shared", 0) or 0)
    return {"registers": registers, "spills": spilled, "shared": shared}


def main() -> None:
    """Answer items until there are no more."""
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    serve(answer)


if __name__ == "__main__":
    main()
