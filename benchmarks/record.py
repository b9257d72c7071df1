"""Record a search space: time every configuration of a C++ template on this machine.

    python -m benchmarks.record benchmarks/tasks/softmax.py:softmax_channels --out softmax.csv.gz
                                [--template softmax] [--size small] [--rounds 5]
    python -m benchmarks.record benchmarks/problems/level1/softmax_rows.py --template schedule --out rows.csv.gz

The template is the library's, or with `--template schedule` the compiler's first schedule. Every configuration is
built first. Then each round times all of them once, in random order, so that a slow minute of the machine falls on
all alike; `time_ms` is the median of the rounds. A configuration that does not build or whose result is wrong has no
time. The kernels run in this process: record only templates that the tests have verified.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch

from kernelwright.compiler import schedules
from kernelwright.languages import get_language
from kernelwright.ops import KernelTemplate, match_all
from kernelwright.propose import Template
from kernelwright.records import BuildStatus, Candidate, Configuration, Split, Workload
from kernelwright.search.replay.simulation import RecordedSpace
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import capture

BLOCK_S = 0.01
Call = Callable[[], object]


def template_of(problem: Problem, workload: Workload, name: str | None) -> Template:
    """Return the task's first C++ template, or the one named; of the compiler's, the first of such a name."""
    if name is not None and name.startswith("schedule"):
        return next(s for s in schedules(problem, ("cpp",)) if s.name.startswith(name))
    found = [t for t in match_all(capture(problem, workload), workload) if t.language == "cpp"]
    return next(t for t in found if isinstance(t, KernelTemplate) and name in {None, t.name})


def loaded(candidate: Candidate, workload: Workload, inputs: list[torch.Tensor]) -> Call | None:
    """Build a candidate and return a call of it, or none where it does not build."""
    language = get_language(candidate.language)
    build = language.build(candidate)
    if build.status is not BuildStatus.OK or build.artefact is None:
        return None
    kernel = language.load(candidate, Path(build.artefact), workload.outputs)
    return lambda: kernel(*inputs)


def time_ms(call: Call) -> float:
    """Return the processor's milliseconds of one call of one thread, over a block of about ten milliseconds."""
    started = time.process_time()
    call()
    once_s = time.process_time() - started
    calls = max(1, round(BLOCK_S / max(once_s, 1e-6)))
    started = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - started) * 1e3 / calls


def first_tensor(result: object) -> torch.Tensor:
    """Return the first output of a call."""
    return result if isinstance(result, torch.Tensor) else cast(Sequence[torch.Tensor], result)[0]


def record(target: str, template_name: str | None, size: str, rounds: int) -> RecordedSpace:
    """Time every configuration of a task's template."""
    problem = Problem(load_task(target))
    workloads = problem.task.split(Split.SEARCH)
    workload = workloads[0 if size == "small" else -1]
    template = template_of(problem, workload, template_name)
    inputs = [t for t in problem.inputs(workload, 0) if isinstance(t, torch.Tensor)]
    expected = problem.run_reference(workload, inputs, {}).outputs[0]
    calls: dict[int, Call] = {}
    configurations: list[Configuration] = list(template.space.configurations())
    for index, configuration in enumerate(configurations):
        call = loaded(template.render(configuration), workload, inputs)
        if call is not None and torch.allclose(first_tensor(call()), expected, rtol=1e-3, atol=1e-3):
            calls[index] = call
        print(f"{index + 1} of {len(configurations)} built, {len(calls)} work", end="\r", flush=True)
    times: dict[int, list[float]] = {index: [] for index in calls}
    for _ in range(rounds):
        for index in random.sample(list(calls), len(calls)):
            times[index].append(time_ms(calls[index]))
    median_us = {index: float(np.median(found)) * 1e3 for index, found in times.items()}
    return RecordedSpace.of(
        f"{template.name.replace('/', '-')}-cpu", configurations,
        [median_us.get(index) for index in range(len(configurations))],
    )  # fmt: skip


def main() -> None:
    """Record and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", help="FILE.py:SYMBOL")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--template")
    parser.add_argument("--size", choices=("small", "large"), default="small")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    record(options.target, options.template, options.size, options.rounds).save(options.out)


if __name__ == "__main__":
    main()
