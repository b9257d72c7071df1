"""The schedules of one problem timed on the GPU against eager and torch.compile: a child of `benchmarks.gpu.schedule`.

Compilers run in many children at once, on meta tensors where they are ours; the GPU is used under one lock, so that
nothing else runs while calls are timed. A call is timed by CUDA events after the L2 cache was overwritten, variants in
turn; the median counts. TF32 is off, as the contract's numerics ask; `eager, tf32` has cuDNN's on, as torch ships.
"""

import contextlib
import fcntl
import math
import os
import runpy
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from kernelwright.compiler import Schedule, schedules
from kernelwright.languages import get_language
from kernelwright.records import Scalar, Split, TensorSpec, Workload
from kernelwright.tasks import Problem, load_task

from ._children import Row, serve
from ._schedule_right import facts

Call = Callable[[], Any]
_CHOICES: tuple[dict[str, Scalar], ...] = (
    {"precision": "tf32x3"}, {"precision": "tf32x3", "block_m": 128, "block_n": 128}, {"num_warps": 8}, {"block": 512},
    {"block": 4096}, {"lanes": "inner"}, {"lanes": "outer"}, {"block": 256}, {"block_m": 64, "block_n": 128},
    {"precision": "tf32x3", "block_k": 64, "num_stages": 3},
)  # fmt: skip
"""Tried as well as the default, where the space has them."""
_LEAVES, _VARIANTS = 5, 14
_ROUNDS, _SECONDS, _FIRST, _HOPELESS = 13, 0.6, 3, 3.0
"""Most rounds, and seconds, of a problem; after so many rounds, variants so many times slower than the best are out."""
_MOST_BYTES = 13e9
"""Arguments, weights and results of a problem; more children hold theirs at the same time."""
_CONVOLUTION = torch.nn.modules.conv._ConvNd
_FLUSH_BYTES = 256 << 20
_LOCK = Path(tempfile.gettempdir()) / f"kernelwright-gpu-{os.getuid()}.lock"
_held: list[int] = []


@contextlib.contextmanager
def gpu() -> Iterator[None]:
    """Have the GPU alone among the children."""
    if _held:
        yield
        return
    with _LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _held.append(1)
        try:
            yield
        finally:
            torch.cuda.synchronize()
            _held.pop()


def answer(item: Row) -> Row:
    """Compile and time a problem."""
    began = time.monotonic()
    row: Row = {"status": "timed", "why": ""}
    try:
        with torch.no_grad():
            _timed(Path(item["path"]), row)
    except Exception as error:  # noqa: BLE001 - any exception is the finding
        text = "".join(traceback.format_exception(error))
        row |= {"status": "failed", "why": f"{type(error).__name__}: {error}"[:1500], "trace": text[-1500:]}
        row["fatal"] = "CUDA error" in text or "out of memory" in text
    torch.cuda.empty_cache()
    return row | {"seconds": round(time.monotonic() - began, 2)}


def _timed(path: Path, row: Row) -> None:
    problem = Problem(load_task(path))
    workload = problem.task.split(Split.SEARCH)[0]
    row["bytes"] = sum(
        torch.Size(s.shape).numel() * getattr(torch, s.dtype).itemsize
        for s in (*workload.arguments, *workload.state, *workload.outputs) if isinstance(s, TensorSpec)
    )  # fmt: skip
    if row["bytes"] > _MOST_BYTES:
        row |= {
            "status": "too large",
            "why": f"{row['bytes'] / 1e9:.1f} GB of arguments, weights and results",
        }
        return
    found = list(islice(schedules(problem, ("triton",)), _LEAVES))
    made = list(_compiled(found, workload))
    row["compiled_s"] = round(sum(m["compile_s"] for m in made), 1)
    row["variants"] = [{k: v for k, v in m.items() if k != "function"} for m in made]
    drawn = problem.state(workload, 0)
    with gpu(), torch.device("cuda"):
        state = {name: t.cuda() for name, t in drawn.items()}
        model = problem.reference(workload, state)
        inputs = runpy.run_path(str(path))["get_inputs"]()
    there = [a.cuda() if isinstance(a, torch.Tensor) else a for a in inputs]
    began = time.monotonic()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=_under_lock)
    calls: dict[str, Call] = {"eager": lambda: model(*there)}
    with contextlib.suppress(Exception):  # no baseline, then
        compiled(*there)
        calls["compile"] = lambda: compiled(*there)
    row["torch_compile_s"] = round(time.monotonic() - began, 1)
    if isinstance(model, torch.nn.Module) and any(isinstance(m, _CONVOLUTION) for m in model.modules()):
        calls["eager, tf32"] = _with_tf32(calls["eager"])
    with gpu():
        began = time.monotonic()
        expected = _tensors(model(*there))
        for place, m in enumerate(made):
            own = [t.clone() for t in state.values()]
            calls[f"variant {place}"] = _call(m["function"], there, own)
            row["variants"][place] |= _checked(calls[f"variant {place}"], expected, m["function"])
        usable = {
            n: c for n, c in calls.items()
            if not n.startswith("variant") or "error" in row["variants"][int(n.split()[1])]
        }  # fmt: skip
        times = _in_turn(usable)
        row["gpu_s"] = round(time.monotonic() - began, 2)
    for name, us in times.items():
        if name.startswith("variant"):
            row["variants"][int(name.split()[1])]["us"] = us
        else:
            row[name] = us
    row |= _best(row)


def _call(function: Any, inputs: list[Any], state: list[torch.Tensor]) -> Call:
    return lambda: function(*inputs, *state)


def _best(row: Row) -> Row:
    """Name the fastest variant that is right, and how many times as fast as eager and torch.compile it is."""
    right = [v for v in row["variants"] if "us" in v and v["error"] <= v["allowed"]]
    if not right:
        return {
            "status": "nothing right",
            "why": "; ".join(str(v.get("failed", v)) for v in row["variants"])[:500],
        }
    best = min(right, key=lambda v: float(v["us"]))
    base = min(row["eager"], row.get("compile", math.inf))
    return {
        "best": best["us"], "by": best["schedule"], "choice": best["choice"],
        "over_eager": row["eager"] / best["us"], "over_best": base / best["us"],
    }  # fmt: skip


# Compiling -------------------------------------------------------------------------------------------------


def _compiled(found: list[Schedule], workload: Workload) -> Iterator[Row]:
    """Yield variants of the schedules whose kernels are compiled: defaults, then choices of the first ones."""
    wanted: list[tuple[Schedule, dict[str, Scalar]]] = [(s, {}) for s in found]
    for choice in _CHOICES:
        for schedule in found:
            named = {p.name for p in schedule.space.parameters}
            if choice.keys() <= named and len(wanted) < _VARIANTS:
                wanted.append((schedule, choice))
                break
    for schedule, choice in wanted:
        cost, program = schedule.leaf.cost, schedule.leaf.state.program
        row: Row = {
            "schedule": schedule.name, "choice": choice, "estimate_us": cost.time_us, "kernels": cost.kernels,
            "memory_bytes": cost.memory_bytes, "cache_bytes": cost.cache_bytes, "lost_bytes": cost.lost_bytes,
            "operations": cost.operations, "passes": cost.passes, "native": len(program.natives) if program else 0,
        }  # fmt: skip
        began = time.monotonic()
        try:
            candidate = schedule.render({**schedule.default(), **choice})
            row["function"] = get_language("triton").load(candidate, Path(), ())
            _warm(row["function"], workload)
        except Exception as error:  # noqa: BLE001 - a variant that does not compile is a finding
            row |= {"failed": f"{type(error).__name__}: {error}"[:300], "function": None}
        yield row | {"compile_s": round(time.monotonic() - began, 2)}


def _warm(function: Any, workload: Workload) -> None:
    """Compile the kernels of a call without a launch, on tensors without memory."""
    from triton.runtime.jit import JITFunction

    specs = [*workload.arguments, *workload.state]
    given = [
        torch.empty(s.shape, dtype=getattr(torch, s.dtype), device="meta") if isinstance(s, TensorSpec) else s.value
        for s in specs
    ]  # fmt: skip
    run = JITFunction.run

    def warmup(self: Any, *arguments: Any, **options: Any) -> Any:
        return run(self, *arguments, **{**options, "warmup": True})

    JITFunction.run = warmup
    try:
        function(*given)
    finally:
        JITFunction.run = run


def _under_lock(graph: Any, inputs: Any) -> Any:
    """Compile with Inductor; what it makes runs only while this process has the GPU."""
    from torch._inductor.compile_fx import compile_fx

    made: Any = compile_fx(graph, inputs)

    def call(*arguments: Any) -> Any:
        with gpu():
            return made(*arguments)

    return call


def _with_tf32(call: Call) -> Call:
    def allowed() -> Any:
        torch.backends.cudnn.allow_tf32 = True
        try:
            return call()
        finally:
            torch.backends.cudnn.allow_tf32 = False

    return allowed


# Timing ----------------------------------------------------------------------------------------------------


def _tensors(found: Any) -> list[torch.Tensor]:
    return list(found) if isinstance(found, tuple | list) else [found]


def _checked(call: Call, expected: list[torch.Tensor], function: Any) -> Row:
    """Return the largest difference from eager's results, relative to the largest of them."""
    if function is None:
        return {}
    try:
        got = _tensors(call())
        torch.cuda.synchronize()
    except Exception as error:  # what a variant raises is its row; a broken context ends the child
        if "CUDA error" in str(error):
            raise
        return {"failed": f"{type(error).__name__}: {error}"[:300]}
    off = max((_off(g, e) for g, e in zip(got, expected, strict=True)), default=0.0)
    return {"error": off, "allowed": 1e-4, **facts(function)}


def _off(got: torch.Tensor, right: torch.Tensor) -> float:
    if got.shape != right.shape or got.dtype != right.dtype:
        return math.inf
    worst, largest, step = 0.0, 0.0, 1 << 26
    for start in range(0, got.numel(), step):
        a, b = (t.flatten()[start : start + step].float() for t in (got, right))
        worst, largest = max(worst, float((a - b).abs().max())), max(largest, float(b.abs().max()))
    return worst / max(largest, 1e-30) if math.isfinite(worst) else math.inf


def _in_turn(calls: dict[str, Call]) -> dict[str, float]:
    """Return the median microseconds of a call of each variant."""
    flushed = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device="cuda")
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    torch.cuda.synchronize()
    ends, out = time.monotonic() + _SECONDS, set[str]()
    for turn in range(_ROUNDS):
        events = {}
        for name, call in calls.items():
            if name in out:
                continue
            flushed.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            call()
            end.record()
            events[name] = begin, end
        torch.cuda.synchronize()
        for name, (begin, end) in events.items():
            taken[name].append(begin.elapsed_time(end) * 1e3)
        if turn + 1 >= _FIRST:
            best = min(statistics.median(t) for t in taken.values() if t)
            out = {
                n
                for n, t in taken.items()
                if statistics.median(t) > _HOPELESS * best and n.startswith("variant")
            }
            if time.monotonic() > ends:
                break
    return {name: statistics.median(t) for name, t in taken.items()}


def main() -> None:
    """Answer items until there are no more."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    serve(answer)


if __name__ == "__main__":
    main()
