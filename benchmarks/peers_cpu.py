"""The engine's kernels against torch, torch.compile, OpenVINO and ONNX Runtime, in one process and unverified.

    python -m benchmarks.peers_cpu [--only attention] [--group conv] [--dtype bfloat16] [--threads 1] [--clock cpu]
                                   [--tries 4] [--peers eager,onnxruntime] [--seconds 2] [--memory kept]
                                   [--out rows.jsonl]
    python -m benchmarks.peers_cpu --table rows.jsonl [later.jsonl]

A row is one problem on one variant: least and median time of interleaved calls, in an order that changes every round.
`own` is the quickest of the first schedules that the policy offers (`--tries`), as a search would begin; `own-kept`
writes its results to the same memory at each call, as OpenVINO and ONNX Runtime do, while torch and `own` allocate
them; with `--memory kept` the process keeps what is freed, so that new results touch no new pages. A peer that is not
installed, or cannot convert a problem, is left out, and its row says why. Results are compared with eager's before
anything is timed. `--clock cpu` counts the process's seconds: with one thread that is what a busy machine leaves to
compare. The bound is of all cores that the process may use: `taskset -c 0` makes it one core's. With `--out`, problems
that the file holds are not measured again. What is accepted, and by how much it is faster, says the judge alone.
"""

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from kernelwright.bound import bound, rates_of
from kernelwright.compiler import schedules
from kernelwright.devices import detect, peaks_of
from kernelwright.languages import get_language
from kernelwright.languages.prepared import prepared
from kernelwright.records import BuildStatus, Split
from kernelwright.system.kept_memory import kept_memory
from kernelwright.tasks import Problem, load_task

from .peer_problems import PROBLEMS, Example

Call = Callable[[], object]
PEERS = ("eager", "compile", "max-autotune", "openvino", "onnxruntime")
TORCH = ("eager", "compile", "max-autotune")
CORES = detect("cpu").cores


class Kept:
    """Torch for a kernel whose results go to the same tensors at each call."""

    def __init__(self) -> None:
        self._made: list[torch.Tensor] = []
        self._at = 0

    def begin(self) -> None:
        """Start over with the first tensor."""
        self._at = 0

    def empty(self, *shape: object, **options: object) -> torch.Tensor:
        """Return the tensor that was made at this place in the first call."""
        if self._at == len(self._made):
            self._made.append(torch.empty(*shape, **options))  # type: ignore[call-overload]  # handed on
        self._at += 1
        return self._made[self._at - 1]

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)


def flat(result: object) -> list[torch.Tensor]:
    """Return a result's tensors."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in flat(part)] if isinstance(result, tuple | list) else []


def own(
    example: Example,
    path: Path,
    tries: int,
    right: list[torch.Tensor],
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, Call], str]:
    """Build the first schedules, keep the quickest that is right, and say which it is."""
    problem = Problem(load_task(path))
    workload = problem.task.split(Split.SEARCH)[0]
    state = dict(example.model.state_dict())
    given = [*example.inputs, *(state[s.name] for s in workload.state)]
    best: tuple[float, Any, str] | None = None
    for schedule in islice(schedules(problem, ("cpp",)), tries):
        candidate = schedule.render(schedule.default())
        language = get_language("cpp")
        build = language.build(candidate, deadline_s=400)
        if build.status is not BuildStatus.OK:
            continue
        kernel: Any = language.load(candidate, Path(str(build.artefact)), workload.outputs)
        call = prepared(kernel, [s.name for s in workload.state]) or kernel
        if not alike(flat(call(*given)), right):
            print(f"{example.name}: {schedule.name} is wrong", file=sys.stderr)
            continue
        took = min(seconds(partial(call, *given), clock) for _ in range(5))
        if best is None or took < best[0]:
            best = took, (call, kernel), schedule.name
    if best is None:
        raise RuntimeError("no schedule that is right")
    call, kernel = best[1]
    space: dict[str, Any] = getattr(kernel, "__globals__", None) or type(kernel).__call__.__globals__
    return {"own": lambda: call(*given), "own-kept": keeping(lambda: call(*given), space)}, best[2]


def keeping(call: Call, space: dict[str, Any]) -> Call:
    """Call a kernel with memory that it gets once; its file sees another torch meanwhile."""
    kept, native = Kept(), space["torch"]

    def kept_call() -> object:
        kept.begin()
        space["torch"] = kept
        try:
            return call()
        finally:
            space["torch"] = native

    return kept_call


def openvino(example: Example, threads: int) -> Call:
    """Convert with OpenVINO's own reader of torch."""
    import openvino as ov

    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "bf16" if example.inputs[0].dtype == torch.bfloat16 else "f32",
    }  # fmt: skip
    model = ov.convert_model(example.model, example_input=tuple(example.inputs))
    request = ov.Core().compile_model(model, "CPU", settings).create_infer_request()
    for i, x in enumerate(example.inputs):
        request.set_input_tensor(i, ov.Tensor(x.numpy(), shared_memory=True))
    return lambda: [request.infer() and request.get_output_tensor(0).data][0]


def onnxruntime(example: Example, threads: int) -> Call:
    """Export with torch's own exporter, and bind inputs where they lie."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(example.model, tuple(example.inputs), path, dynamo=True, verbose=False)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kinds = {torch.float32: "float32", torch.int64: "int64"}
    for node, x in zip(session.get_inputs(), example.inputs, strict=True):
        binding.bind_input(node.name, "cpu", 0, kinds[x.dtype], list(x.shape), x.data_ptr())
    for node in session.get_outputs():
        binding.bind_output(node.name, "cpu")

    return OnnxCall(session, binding)


class OnnxCall:
    """A call of ONNX Runtime whose results stay where they were written, unless they are to be checked."""

    def __init__(self, session: Any, binding: Any) -> None:
        self._session, self._binding, self.checks = session, binding, True

    def __call__(self) -> object:
        """Run the model."""
        self._session.run_with_iobinding(self._binding)
        return self._binding.copy_outputs_to_cpu() if self.checks else None


def peer(name: str, example: Example, threads: int) -> Call:
    """Make one peer ready."""
    model, inputs = example.model, example.inputs
    if name == "eager":
        return lambda: model(*inputs)
    if name in ("openvino", "onnxruntime"):
        return (openvino if name == "openvino" else onnxruntime)(example, threads)
    torch._dynamo.reset()
    tuned: dict[str, Any] | None = (
        {"max_autotune": True, "freezing": True} if name == "max-autotune" else None
    )
    made = torch.compile(model, options=tuned)
    return lambda: made(*inputs)


def alike(found: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    """Whether results are the same but for rounding, by the size of what is right."""
    loose = 3e-2 if right[0].dtype == torch.bfloat16 else 1e-3
    if len(found) < len(right):
        return False
    for a, b in zip(found, right, strict=False):
        allowed = loose * float(b.float().abs().max())
        if a.shape != b.shape or not torch.allclose(a.float(), b.float(), rtol=loose, atol=allowed):
            return False
    return True


def seconds(call: Call, clock: Callable[[], float] = time.perf_counter) -> float:
    """Time one call."""
    begun = clock()
    call()
    return clock() - begun


def as_tensors(result: object) -> list[torch.Tensor]:
    """Return a peer's result as tensors."""
    parts = result if isinstance(result, tuple | list) else [result]
    return [p if isinstance(p, torch.Tensor) else torch.as_tensor(p) for p in parts]


def measured(example: Example, path: Path, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield a row for each variant of one problem, or why it is left out."""
    right = flat(example.model(*example.inputs))
    calls, notes, schedule = dict[str, Call](), dict[str, str](), ""
    for name in (p for p in PEERS if p in (options.peers or ",".join(PEERS)).split(",")):
        try:
            call = peer(name, example, options.threads)
            if not alike(as_tensors(call()), right):
                raise RuntimeError("another result than eager's")
            if isinstance(call, OnnxCall):
                call.checks = False
            calls[name] = call
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is its row
            notes[name] = (
                f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}"
            )
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    try:
        made, schedule = own(example, path, options.tries, right, clock)
        calls |= made
    except Exception as error:  # noqa: BLE001 - so is ours
        notes["own"] = f"{type(error).__name__}: {str(error).strip()[:200]}"
    found: dict[str, list[float]] = {name: [] for name in calls}
    order, end = list(calls), time.perf_counter() + options.seconds
    while time.perf_counter() < end or len(found["eager"]) < 5:
        random.shuffle(order)
        for name in order:
            found[name].append(seconds(calls[name], clock))
    limit = attainable(path)
    head = {
        "problem": example.name, "group": example.group, "dtype": options.dtype, "threads": options.threads,
        "clock": options.clock, "cores": CORES, "memory": options.memory, **limit,
    }  # fmt: skip
    for name, times in found.items():
        row = {**head, "variant": name, "calls": len(times), "least_us": min(times) * 1e6}
        yield {**row, "median_us": statistics.median(times) * 1e6} | (
            {"schedule": schedule} if name == "own" else {}
        )
    for name, why in notes.items():
        yield {**head, "variant": name, "note": why}


def attainable(path: Path) -> dict[str, object]:
    """Return what the bound says of a problem with all cores: in microseconds, what limits it, each term's time."""
    problem, device = Problem(load_task(path)), detect("cpu")
    workload = problem.task.split(Split.SEARCH)[0]
    found = bound(problem, workload, device, peaks_of(device), rates_of(device), fresh=True)
    terms = {f"{t.kind} {t.name}": round(t.time_us, 2) for t in found.terms}
    return {"attainable_us": found.attainable_us, "limit": found.limit, "terms_us": terms}


def chosen_group(group: str, asked: str) -> bool:
    """Whether a group is among those asked for, by parts of their names."""
    return any(part in group for part in asked.split(","))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a line for each problem: the variants' times over our own, the best peer, the share of the bound.

    `best/own` compares our kernel with the best peer; `best/kept` what an owner would keep, which is torch's best form
    where that is faster, since nothing slower is accepted.
    """
    by_problem: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_problem.setdefault(str(row["problem"]), {})[str(row["variant"])] = row
    head = f"{'own us':>10}{'bound':>7}{'best/own':>10}{'best/kept':>11}"
    lines = [f"{'problem':34}" + "".join(f"{p:>13}" for p in PEERS) + head]
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for name, variants in by_problem.items():
        any_row = next(iter(variants.values()))
        times = {v: row["median_us"] for v, row in variants.items() if "median_us" in row}
        mine, best = times.get("own"), min(t for v, t in times.items() if v in PEERS)
        kept = min(t for v, t in times.items() if v in (*TORCH, "own"))
        ratios = best / (mine or kept), best / kept, best / times.get("own-kept", mine or kept)
        groups.setdefault(str(any_row["group"]), []).append(ratios)
        cells = "".join(f"{times[p] / mine:13.2f}" if mine and p in times else f"{'-':>13}" for p in PEERS)
        whole = any_row["threads"] == any_row.get("cores", CORES)  # the bound is of all cores
        whole &= any_row["clock"] == "wall" or any_row["threads"] == 1
        share = f"{any_row['attainable_us'] / min(best, kept):7.2f}" if whole else f"{'-':>7}"
        lines.append(f"{name:34}{cells}{mine or 0:10.0f}{share}{ratios[0]:10.2f}{ratios[1]:11.2f}")
    groups["all"] = [ratios for found in groups.values() for ratios in found]
    for group, found in groups.items():
        own, kept, same = zip(*found, strict=True)
        lines.append(f"{group}: geomean {geomean(own):.2f} over the best peer, {len(found)} problems, slowest "
                     f"{min(own):.2f}; {geomean(kept):.2f} with torch's form where that is faster; "
                     f"{geomean(same):.2f} where results go to the same memory")  # fmt: skip
    return "\n".join(lines)


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def main() -> None:
    """Measure every problem that was asked for, print the table, and save the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--group", default="", help="parts of names, separated by commas; by default all")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--tries", type=int, default=4)
    parser.add_argument("--peers", default="", help="which to time, separated by commas; by default all")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument(
        "--memory", choices=("usual", "kept"), default="usual", help="what becomes of freed memory"
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--table", type=Path, nargs="+", help="rows of later files replace those of earlier ones"
    )
    options = parser.parse_args()
    if options.table:
        shown = [json.loads(line) for file in options.table for line in file.read_text().splitlines()]
        print(table([row for row in shown if chosen_group(str(row["group"]), options.group)]))
        return
    torch.set_num_threads(options.threads)
    known = options.out.read_text().splitlines() if options.out and options.out.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in known]
    done = {row["problem"] for row in rows}
    chosen = [
        p
        for p in PROBLEMS
        if options.only in p.name and chosen_group(p.group, options.group) and p.name not in done
    ]
    kept = kept_memory() if options.memory == "kept" else nullcontext()
    with tempfile.TemporaryDirectory() as folder, kept:
        for number, problem in enumerate(chosen, 1):
            path = Path(folder) / f"{problem.file_name}.py"
            path.write_text(problem.text(options.dtype))
            print(f"{number}/{len(chosen)} {problem.name}", file=sys.stderr, flush=True)
            example = problem.example(
                path
            )  # before inference mode: its own tensors do not tell when they change
            with torch.inference_mode():
                for row in measured(example, path, options):
                    rows.append(row)
                    if options.out:
                        with options.out.open("a") as file:
                            file.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
