"""The library's C++ kernels against eager, torch.compile and schedules, in one process, call by call in turn.

    python -m benchmarks.kernel_pairs [--only softmax,norm] [--task gelu_bias] [--sizes small,large]
                                      [--threads 1] [--rounds 15] [--max-autotune] [--all-templates]
                                      [--set unroll=8] [--schedules 1] [--no-compile] [--clock cpu] [--out rows.jsonl]

For every task of `benchmarks/tasks` at two sizes, the default configuration of the matching C++ templates is
built, held against float64, and timed in rounds: each round visits eager, torch.compile and the kernel in a
rotating order on the same inputs, which differ from round to round. A figure above 1 is the better baseline's
time over the kernel's: of the least times, which a busy machine does not disturb, and of the medians.

With `--schedules` the first schedules of the compiler are built and timed as well, so that what a template is worth
next to them shows; `--clock cpu` counts processor time, for a busy machine; rows are added to the file of `--out`.

All variants write to recycled memory: glibc is told to keep what is freed, so that no variant pays for page faults
that another does not. A quick look for people who write kernels; what is claimed comes from
`benchmarks.library`, which measures in workers.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

import torch

from benchmarks.library import of_sizes, targets
from kernelwright.compiler import schedules
from kernelwright.languages import get_language
from kernelwright.ops import match_all
from kernelwright.propose import Template
from kernelwright.records import BuildStatus, Configuration, Split, Workload
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import capture

Call = Callable[..., object]
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
RECYCLED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 28)}
"""glibc keeps freed memory and never maps a tensor afresh."""


def recycle_memory(threads: int) -> None:
    """Start this program again with memory recycled and threads bound, unless that is done."""
    wanted = {**RECYCLED, "OMP_NUM_THREADS": str(threads), "GOMP_SPINCOUNT": "2000"}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        arguments = [sys.executable, "-m", "benchmarks.kernel_pairs", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, **wanted})


def build(template: Template, settings: Configuration, workload: Workload) -> Call:
    """Compile the default configuration of a template, with some settings changed where it has them."""
    known = template.default()
    candidate = template.render({**known, **{k: v for k, v in settings.items() if k in known}})
    language = get_language("cpp")
    done = language.build(candidate)
    if done.status is not BuildStatus.OK:
        raise SystemExit(f"{template.name} does not build:\n{done.diagnostics}")
    return language.load(candidate, Path(done.artefact or ""), workload.outputs)


def flat(result: object) -> tuple[torch.Tensor, ...]:
    """Return the results of a call as a tuple."""
    return (result,) if isinstance(result, torch.Tensor) else tuple(cast(Iterable[torch.Tensor], result))


def worst_error(problem: Problem, workload: Workload, inputs: Sequence[object], kernel: Call) -> float:
    """Return the kernel's error against float64 as a share of what is allowed; at most 1 is right.

    Allowed are 4 times the native op's own error or 8 epsilon of the output's scale, whichever is more.
    """
    native = problem.run_reference(workload, inputs, {}).outputs
    exact = problem.run_oracle(workload, inputs, {}).outputs
    worst = 0.0
    for got, own, right in zip(flat(kernel(*inputs)), native, exact, strict=True):
        if not got.dtype.is_floating_point:
            worst = max(worst, 0.0 if torch.equal(got, own) else float("inf"))
            continue
        floor = 8 * torch.finfo(got.dtype).eps * float(right.abs().max())
        allowed = max(4 * float((own.double() - right).abs().max()), floor)
        worst = max(worst, float((got.double() - right).abs().max()) / allowed)
    return worst


def time_in_turn(
    variants: dict[str, Call], pool: list[list[object]], rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Time the variants in rounds; every round begins with another variant and every call takes the next inputs."""
    names = list(variants)
    for name in names:
        for inputs in pool:
            variants[name](*inputs)
    started = clock()
    variants[names[0]](*pool[0])
    calls = max(1, min(64, int(1e-3 / (clock() - started))))
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            variant = variants[name]
            variant(*pool[(number + 1) % len(pool)])
            started = clock()
            for call in range(calls):
                variant(*pool[(number + call) % len(pool)])
            times[name].append((clock() - started) / calls * 1e6)
    return times


def rows(target: str, size: str, options: argparse.Namespace) -> list[str]:
    """Measure one task at one size; a line for each template."""
    task = of_sizes(load_task(target), [size])
    problem = Problem(task)
    workload = task.split(Split.SEARCH)[0]
    label = f"{target.split('/')[-1].replace('.py', '')} {size}"
    found = [t for t in match_all(capture(problem, workload), workload) if t.language == "cpp"]
    if not found:
        return [f"{label:36} no template"]
    pool = [problem.inputs(workload, seed) for seed in range(2 if size == "large" else 4)]
    reference = problem.reference(workload)
    torch._dynamo.reset()
    variants: dict[str, Call] = {"eager": reference}
    if not options.no_compile:
        variants["compile"] = torch.compile(reference)
    if options.max_autotune:
        variants["max-autotune"] = torch.compile(reference, mode="max-autotune")
    baselines = list(variants)
    settings = dict(pair.split("=") for pair in options.set.split(",") if pair)
    changed: Configuration = {k: int(v) for k, v in settings.items()}
    chosen = found if options.all_templates else found[:1]
    kernels: dict[str, Template] = {
        t.name if t.name not in variants else f"{t.name}-{i}": t for i, t in enumerate(chosen)
    }
    printed = itertools.islice(schedules(problem, ("cpp",)), options.schedules)
    kernels |= {f"{schedule.name}-{i}": schedule for i, schedule in enumerate(printed)}
    variants |= {name: build(t, changed, workload) for name, t in kernels.items()}
    errors = {name: worst_error(problem, workload, pool[0], variants[name]) for name in kernels}
    times = time_in_turn(variants, pool, options.rounds, CLOCKS[options.clock])
    tensors = [t for t in (*pool[0], *flat(reference(*pool[0]))) if isinstance(t, torch.Tensor)]
    megabytes = sum(t.numel() * t.element_size() for t in tensors) / 1e6
    if options.out:
        row = {"task": label.split()[0], "size": size, "threads": options.threads, "clock": options.clock}
        row |= {"least_us": {n: min(v) for n, v in times.items()}, "errors": errors}
        row |= {"median_us": {n: statistics.median(v) for n, v in times.items()}}
        with Path(options.out).open("a") as file:
            file.write(json.dumps(row) + "\n")
    lines = []
    for name in kernels:
        least = {variant: min(times[variant]) for variant in (*baselines, name)}
        middle = {variant: statistics.median(times[variant]) for variant in (*baselines, name)}
        ratio = min(least[b] for b in baselines) / least[name]
        median = min(middle[b] for b in baselines) / middle[name]
        others = " ".join(f"{least[b]:9.1f}" for b in baselines)
        wrong = "" if errors[name] <= 1 else f"  WRONG: {errors[name]:.2g} of what is allowed"
        lines.append(
            f"{label:36} {name:22} {ratio:6.2f} {median:6.2f} {least[name]:9.1f} {others} "
            f"{megabytes / least[name] * 1e3:6.1f}{wrong}"
        )
    return lines


def main() -> None:
    """Print a line for each task and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="files of benchmarks/tasks, without .py")
    parser.add_argument("--task", default="", help="names of tasks")
    parser.add_argument("--sizes", default="small,large")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--max-autotune", action="store_true", help="a third baseline")
    parser.add_argument("--no-compile", action="store_true", help="eager alone is the baseline")
    parser.add_argument("--all-templates", action="store_true", help="every matching template, not the first")
    parser.add_argument("--set", default="", help="parameters that differ from the default, as a=1,b=2")
    parser.add_argument("--schedules", type=int, default=0, help="how many of the compiler's, the best first")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="processor time where others run")
    parser.add_argument("--out", default="", help="a file that rows are added to, as JSON lines")
    options = parser.parse_args()
    recycle_memory(options.threads)
    torch.set_num_threads(options.threads)
    names = [name for name in options.task.split(",") if name]
    print(f"{'task':36} {'kernel':22} {'least':>6} {'median':>6} {'kernel us':>9} and of baselines, GB/s")
    for target in targets([name for name in options.only.split(",") if name]):
        if names and target.split(":")[-1] not in names:
            continue
        for size in options.sizes.split(","):
            for line in rows(target, size, options):
                print(line, flush=True)


if __name__ == "__main__":
    main()
